// Package buf lends counted buffers. A buffer has one or more holders, and goes
// back to its pool when the last holder releases it. Messages therefore cost no
// allocation, and payload bytes are not copied merely because two parts of the
// program need them at the same time.
//
//	Pool ─Get▶ holder ─Retain▶ second holder
//	  ▲          │Release           │Release
//	  └──────────┴── the last ──────┘
//
// The size of a buffer is a power of two, plus some room for a header in large
// buffers. A buffer above the largest size is not kept.
//
// The package must not know what the bytes mean. A buffer's memory is valid
// until its last Release. One Release too many panics, because it is a bug of
// this program and never of a peer.
package buf
