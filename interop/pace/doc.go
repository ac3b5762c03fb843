// Package pace measures a mounted directory's speed: large files and small
// files, with empty client caches, and locks. It runs inside the guest, and starts no
// programs for operations, because that costs more there than the operation.
package pace
