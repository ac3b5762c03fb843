// Package mpa encodes and decodes what MPA adds to a TCP stream: the Request
// and Reply frames that start a connection (RFC 5044, Section 7.1, and its
// enhancement by RFC 6581), and the FPDUs that carry DDP segments afterwards.
// It also decides, as pure functions, the parameters that the two frames agree
// on.
//
//	initiator                                        responder
//	NewRequest ──Frame.AppendTo──▶ RequestLen, ParseRequest ──▶ Accept
//	Complete  ◀── ReplyLen, ParseReply ◀──Frame.AppendTo────────┘
//
//	FPDU:  | ULPDU_Length | ULPDU (a DDP segment)  | pad   | CRC32c |
//	       | 2 bytes      | ULPDU_Length bytes     | 0..3  | 4      |
//	       '── UpdateCRC covers these, the pad included ──'
//
// If the receiver has asked for Markers, a Marker is inserted into the stream
// every 512 bytes: Inserter and Remover compute the positions.
//
// The package must not know sockets, clocks, or ULPDU contents.
//
// # Slice ownership
//
// A parsed Frame's PrivateData aliases the parsed bytes. AppendTo copies.
// Nothing is retained.
package mpa
