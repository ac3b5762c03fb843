// Package ddp encodes and decodes DDP segment headers (RFC 5041), splits
// messages into segments, and checks arriving segments before their payload is
// placed.
//
//	MPA ULPDU, tagged:   | control | RsvdULP | STag | TO | payload
//	                     | 1       | 1       | 4    | 8  |
//	MPA ULPDU, untagged: | control | RsvdULP | QN | MSN | MO | payload
//	                     | 1       | 5       | 4  | 4   | 4  |
//	control: T L Rsvd(4) DV(2), most significant bit first
//
// It serves a lower layer that delivers in order, as TCP does: a segment that
// is not the next in its queue is an error, and is not buffered.
//
// The package must not know what RsvdULP means, which queues exist, or how
// STags are stored.
//
// # Slice ownership
//
// A payload that a parser returns aliases its input. Nothing is retained.
package ddp
