// Package pace measures the speed of a mounted directory: large files and small
// files, with empty client caches, and locks. It runs inside the guest, and starts no
// programs for operations, because that costs more there than the operation.
package pace
