// Package buf provides reference-counted buffers. A buffer has one or more
// holders, and returns to its pool when the last holder releases it. Messages
// therefore cost no allocation, and payload bytes are not copied merely because
// two parts of the program need them at the same time.
//
//	Pool ─Get▶ holder ─Retain▶ second holder
//	  ▲          │Release           │Release
//	  └──────────┴── the last ──────┘
//
// A buffer's size is a power of two, plus some space for a header in large
// buffers. A buffer above the largest size is not pooled.
//
// The package must not know what the bytes mean. A buffer's memory is valid
// until its last Release. One Release too many panics, because it is a bug in
// this program and is never caused by a peer.
package buf
