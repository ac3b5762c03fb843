// Package ddp encodes and decodes the headers of DDP segments (RFC 5041), cuts
// messages into segments, and checks arriving segments before their payload is
// placed.
//
//	ULPDU of MPA, tagged:   | control | RsvdULP | STag | TO | payload
//	                        | 1       | 1       | 4    | 8  |
//	ULPDU of MPA, untagged: | control | RsvdULP | QN | MSN | MO | payload
//	                        | 1       | 5       | 4  | 4   | 4  |
//	control: T L Rsvd(4) DV(2), most significant bit first
//
// It serves a lower layer that delivers in order, as TCP does: a segment that
// is not the next of its queue is an error, and is not kept.
//
// The package must not know the meaning of RsvdULP, which queues exist, or how
// STags are kept.
//
// # Life of slices
//
// A payload that a parser returns aliases its input. Nothing is retained.
package ddp
