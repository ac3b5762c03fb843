package gss

import "time"

// A Context is one end of an established security context. It is safe for concurrent use.
// Messages and tokens are lists of slices, in order: a message need not be contiguous,
// and no method keeps or copies it.
type Context interface {
	// Mechanism describes the mechanism and its cipher, as text.
	Mechanism() string

	// Expires returns the time when the context's credential expires, without any
	// tolerance for differing clocks.
	Expires() time.Time

	// MICSize returns the size of AppendMIC's tokens, in bytes.
	MICSize() int

	// AppendMIC appends to dst a token that protects the integrity of message
	// (GSS_GetMIC, RFC 2743, Section 2.3.1).
	AppendMIC(dst []byte, message [][]byte) ([]byte, error)

	// VerifyMIC verifies that the other end created token for message (GSS_VerifyMIC, RFC
	// 2743, Section 2.3.2). Errors have type *Error.
	VerifyMIC(token []byte, message [][]byte) error

	// WrapOverhead returns the number of bytes that Wrap adds before and after a message.
	// The token is exactly that much longer than the message.
	WrapOverhead() (before, after int)

	// Wrap encrypts message in place (GSS_Wrap with confidentiality, RFC 2743,
	// Section 2.3.3). The token is before, message and after, one after the other;
	// before and after have the sizes that WrapOverhead returns. After an error the
	// message must not be sent.
	Wrap(before []byte, message [][]byte, after []byte) error

	// Unwrap decrypts token in place and checks it (GSS_Unwrap, RFC 2743, Section 2.3.4).
	// A token without confidentiality is an error. The message aliases token, and the
	// returned list uses the elements of token's. After an error, which has type *Error,
	// token contains no part of the message.
	Unwrap(token [][]byte) (message [][]byte, err error)
}
