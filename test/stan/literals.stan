// error: 7:13 the elements must be of one type
// error: 8:14 an array needs at least one element
// error: 9:14 between brackets there can be numbers or row vectors
model {
  array[2, 2] real a = {{1, 2.5}, {3, 4}}; row_vector[2] w = [1, 2.5]; matrix[2, 2] m = [w, [1, 2]];
  complex z = 1.5 + 2i; array[2] tuple(real, int) t = {(1, 2), (2.5, 3)}; vector[0] e = []'; real r = 1_000.5e-1_0;
  print({1, [1], 2});
  print(1, 2,{});
  print("a", [{1}]);
}
