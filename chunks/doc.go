// Package chunks is the part of an RPC-over-RDMA version 1 header that
// describes memory: the Read list, the Write list and the Reply chunk (RFC
// 8166, Sections 3.4 and 4.3). It implements their XDR, this program's limits,
// and the arithmetic that maps a message onto chunks.
//
//	reads   1 PHLOO 1 PHLOO 0            segments, grouped by position P
//	writes  1 n HLOO … 1 m HLOO … 0      chunks, each an array of segments
//	reply   1 n HLOO …                   one chunk, or 0
//
//	reduced message   [ head |len][ tail ]        what was sent inline
//	Read chunk              ▲ [ item ][pad]       P is the item's place in
//	unreduced         [ head |len][ item ][pad][ tail ]  the whole message
//
// The package must not know how bytes are moved, nor what a message means.
//
// # Slice ownership
//
// A Lists owns its slices and reuses them at the next Parse, so that reading a
// header allocates nothing once they have grown. A Chunk or a ReadChunk from a
// Lists aliases those slices and is valid until then.
package chunks
