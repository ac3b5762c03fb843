// Package model does random operations on directories that are one directory seen
// by several mounts, and knows what each must say:
//
//	Source ──Op──▶ Tree (in memory) ──▶ Result ┐
//	          └──▶ Player of a mount ─▶ Result ┴─ equal, or the run ends with the
//	                                              seed and the last operations
//
// In a Run, the operations come one after the other, each to a mount that chance chooses,
// in a name space so small that they meet: names are taken, directories full,
// paths lead through files and symbolic links. A Dir does them on a directory of
// this machine; Serve and Remote carry them to another, one line of JSON each way.
//
// A Crowd does them at the same time, and holds to the model what looks at a directory
// in which nothing is changed meanwhile: what a change has left is seen by all who look
// after it has returned.
//
// The same seed gives the same operations for the same mounts. The package must not
// know what it is that joins the mounts.
package model
