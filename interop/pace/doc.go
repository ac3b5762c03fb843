// Package pace measures how fast a mounted directory is: large files and small
// ones, with nothing of the client's caches. It runs inside the guest, and starts no
// program for an operation, which costs more there than the operation.
package pace
