// Package mpa encodes and decodes what MPA puts into a TCP stream: the Request
// and Reply frames that start a connection (RFC 5044, Section 7.1, and its
// enhancement by RFC 6581), and the FPDUs that carry DDP segments afterwards.
// It also decides, as pure functions, what the two frames agree on.
//
//	initiator                                        responder
//	NewRequest ──Frame.AppendTo──▶ RequestLen, ParseRequest ──▶ Accept
//	Complete  ◀── ReplyLen, ParseReply ◀──Frame.AppendTo────────┘
//
//	FPDU:  | ULPDU_Length | ULPDU (a DDP segment)  | pad   | CRC32c |
//	       | 2 octets     | ULPDU_Length octets    | 0..3  | 4      |
//	       '── UpdateCRC covers these, the pad included ──'
//
// Where the receiver has asked for them, Markers stand among these octets, at
// every 512th of the stream: Inserter and Remover say where.
//
// The package must not know sockets, clocks, or what a ULPDU says.
//
// # Life of slices
//
// A parsed Frame's PrivateData aliases the octets that it was parsed from.
// AppendTo copies. Nothing is retained.
package mpa
