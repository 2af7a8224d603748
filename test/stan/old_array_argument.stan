// error: 2:24 write `array[,] real`, or read the program with
functions { void f(real[,] x) { } }
