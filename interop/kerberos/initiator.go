package kerberos

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// An initiator makes a context with an acceptor by MIT's library, which stays the
// initiator's end: each token costs a round trip to the peer's process.
type initiator struct {
	peer    *gssPeer
	service string
	began   bool

	mu      sync.Mutex // the peer answers one order at a time
	mic     int
	before  int
	after   int
	expires time.Time
}

var (
	_ gss.Initiator = (*initiator)(nil)
	_ gss.Context   = (*initiator)(nil)
)

// newInitiator returns an initiator for a service, such as nfs@server.test.example.
// A peer has one context: a new initiator ends the previous one's.
func (p *gssPeer) newInitiator(service string) *initiator {
	return &initiator{peer: p, service: service}
}

// headerLen is the length of a token's header (RFC 4121, Section 4.2.6), and of the
// confounder behind it.
const headerLen = 16

// Step returns the first token, or completes the context (gss.Initiator).
func (i *initiator) Step(_ context.Context, answer []byte) ([]byte, gss.Context, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.began {
		i.began = true
		token, err := i.peer.initiateContext(initiation{Service: i.service, Flags: []string{"mutual", "integrity", "confidentiality"}})
		return token, nil, err
	}
	if err := i.peer.Complete(answer); err != nil {
		return nil, nil, err
	}
	mic, err := i.peer.signMessage(nil)
	if err != nil {
		return nil, nil, err
	}
	wrapped, err := i.peer.Wrap(nil)
	if err != nil {
		return nil, nil, err
	}
	i.mic, i.before, i.after, i.expires = len(mic), 2*headerLen, len(wrapped)-2*headerLen, time.Now().Add(time.Hour)
	return nil, i, nil
}

// Close does nothing: the peer's process holds the context (gss.Initiator).
func (i *initiator) Close() {}

// Mechanism names the library (gss.Context).
func (i *initiator) Mechanism() string { return "MIT's library" }

// Expires returns a time in an hour: tickets from this package's KDC last longer.
func (i *initiator) Expires() time.Time { return i.expires }

// MICSize returns a MIC token's size.
func (i *initiator) MICSize() int { return i.mic }

// AppendMIC appends a MIC token.
func (i *initiator) AppendMIC(dst []byte, message [][]byte) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	token, err := i.peer.signMessage(bytes.Join(message, nil))
	return append(dst, token...), err
}

// VerifyMIC checks a MIC token.
func (i *initiator) VerifyMIC(token []byte, message [][]byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.peer.verifyMessage(token, bytes.Join(message, nil))
}

// WrapOverhead returns the number of bytes that Wrap adds before and after a message.
func (i *initiator) WrapOverhead() (before, after int) { return i.before, i.after }

var errSize = errors.New("kerberos: the library's token has another length")

// Wrap makes a Wrap token.
func (i *initiator) Wrap(before []byte, message [][]byte, after []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	plain := bytes.Join(message, nil)
	token, err := i.peer.Wrap(plain)
	if err != nil {
		return err
	}
	if len(token) != len(before)+len(plain)+len(after) {
		return errSize
	}
	token = token[copy(before, token):]
	for _, part := range message {
		token = token[copy(part, token):]
	}
	copy(after, token)
	return nil
}

// Unwrap opens a Wrap token.
func (i *initiator) Unwrap(token [][]byte) ([][]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	plain, err := i.peer.Unwrap(bytes.Join(token, nil))
	if err != nil {
		return nil, err
	}
	whole := token[0]
	if len(token) != 1 { // gather it
		whole = bytes.Join(token, nil)
	}
	return [][]byte{whole[:copy(whole, plain)]}, nil
}
