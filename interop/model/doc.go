// Package model does random operations on one directory seen by several mounts,
// and knows each one's expected result:
//
//	Source ──Op──▶ Tree (in memory) ──▶ Result ┐
//	          └──▶ Player of a mount ─▶ Result ┴─ equal, or the run ends with the
//	                                              seed and the last operations
//
// In a Run, the operations come one after the other, each on a random mount, in a name
// space so small that they collide: names exist, directories are full, paths lead through
// files and symbolic links. A Dir does operations on a directory on this machine; Serve
// and Remote carry them to another machine, one JSON line each way.
//
// A Crowd does operations concurrently, and compares with the model those that
// look at a directory without a concurrent change: every look that begins after
// a change has returned must see the change.
//
// The same seed gives the same operations for the same mounts. The package must
// not know how the mounts are connected.
package model
