// error: 4:9 this string does not end on its line
// error: 4:18 expected `)`
model {
  print("no end);
}
