// Package chunks is the part of an RPC-over-RDMA version 1 header that
// describes memory: the Read list, the Write list and the Reply chunk (RFC
// 8166, Sections 3.4 and 4.3), their XDR, the limits that this program sets
// them, and the arithmetic that maps a message onto them.
//
//	reads   1 PHLOO 1 PHLOO 0            segments, grouped by position P
//	writes  1 n HLOO … 1 m HLOO … 0      chunks, each an array of segments
//	reply   1 n HLOO …                   one chunk, or 0
//
//	reduced message   [ head |len][ tail ]        what was sent inline
//	Read chunk              ▲ [ item ][pad]       P is the item's place in
//	unreduced         [ head |len][ item ][pad][ tail ]  the whole message
//
// The package must not know who moves the octets, nor what a message means.
//
// # Life of slices
//
// A Lists owns its slices and uses them again at the next Parse, so that
// reading a header allocates nothing once they have grown. A Chunk or a
// ReadChunk taken from it aliases them and lives until then.
package chunks
