package gss

import "time"

// A Context is one end of an established security context. Many goroutines may
// use it at once. Messages and tokens are lists of slices, in order: a message
// need not be contiguous, and no method keeps or copies it.
type Context interface {
	// Mechanism names the mechanism and its cipher, for people to read.
	Mechanism() string

	// Expires is the end of the context's life by its credential, without any
	// tolerance for clocks that differ.
	Expires() time.Time

	// MICSize is the size of the tokens that AppendMIC makes, in bytes.
	MICSize() int

	// AppendMIC appends to dst a token that protects the integrity of message
	// (GSS_GetMIC, RFC 2743, Section 2.3.1).
	AppendMIC(dst []byte, message [][]byte) ([]byte, error)

	// VerifyMIC checks that the other end made token for message (GSS_VerifyMIC,
	// RFC 2743, Section 2.3.2). Errors are of type *Error.
	VerifyMIC(token []byte, message [][]byte) error

	// WrapRoom is the room that Wrap needs before and after a message, in bytes.
	// The token is exactly that much longer than the message.
	WrapRoom() (before, after int)

	// Wrap encrypts message in place (GSS_Wrap with confidentiality, RFC 2743,
	// Section 2.3.3). The token is before, message and after, one after the other;
	// before and after have the sizes that WrapRoom gives. After an error the
	// message must not be sent.
	Wrap(before []byte, message [][]byte, after []byte) error

	// Unwrap decrypts token in place and checks it (GSS_Unwrap, RFC 2743, Section
	// 2.3.4). A token without confidentiality is an error. The message aliases
	// token, and the returned list uses the elements of token's. After an error,
	// which is of type *Error, token holds nothing of the message.
	Unwrap(token [][]byte) (message [][]byte, err error)
}
