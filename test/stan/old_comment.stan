// error: 3:3 comments begin with `//`
model {
  # a remark
}
