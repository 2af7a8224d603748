// error: 3:9 this comment does not end
// error: 3:7 this `{` of the model block is never closed
model { /* and on
}
