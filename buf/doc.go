// Package buf lends counted buffers. A buffer has one holder or several, and
// goes back to its pool when the last one releases it, so that no message
// costs an allocation and no payload byte is copied only because two parts
// of the program need it at the same time.
//
//	Pool ─Get▶ holder ─Retain▶ second holder
//	  ▲          │Release           │Release
//	  └──────────┴── the last ──────┘
//
// A buffer has a size of a power of two, the large ones and some room for a
// header; what is larger than the largest size is not kept.
//
// The package must not know what the octets mean. A buffer's memory is valid
// until its last Release; one Release too many panics, since that is a fault
// of this program and never of a peer.
package buf
