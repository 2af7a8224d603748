// error: 7:17 a loop's bound must be int, but is real
// error: 8:13 a loop runs over a range or a container, but this is int
// error: 9:7 a condition must be int or real, but is vector
// error: 10:1 `break` can stand only in a loop
// error: 11:1 `return` can stand only in a function
model { vector[3] v; matrix[2, 2] m; array[2] vector[2] a;
  for (i in 1 : 2.5) { }
  for (i in 3) { }
  if (v) { }
break;
return;
  for (x in v) { real y = x; }
  for (x in m) { real y = x; }
  for (x in a) { vector[2] y = x; for (e in x) { if (e > 1) break; else continue; } }
  while (v[1] > 0) break;
}
