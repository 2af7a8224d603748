// error: 4:3 `<-` is no longer assignment
model {
  real x;
  x <- 3;
}
