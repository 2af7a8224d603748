// error: 3:10 letters beyond ASCII
model {
  real größe = 1;
}
