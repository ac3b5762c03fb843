package rpcsec

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// Sizes of the fake mechanism's tokens, in bytes.
const (
	fakeMIC    = 26 // needs padding
	fakeBefore = 20
	fakeAfter  = 23
)

var errFake = errors.New("fake mechanism")

// A fakeContext is an end of a context whose messages are signed with HMAC and
// encrypted with AES in counter mode, with a key for each direction.
type fakeContext struct {
	send, receive []byte // keys
	end           time.Time
	tokens        atomic.Uint64 // encrypted so far
	verifying     func()        // called once for the next MIC to verify, if not nil
	broken        atomic.Int32  // how many more MICs and tokens can be made, plus 1; 0: any number
}

func newFakeContext(key string, acceptor bool, end time.Time) *fakeContext {
	c := &fakeContext{send: []byte(key + " initiator's 0000")[:32], receive: []byte(key + " acceptor's 00000")[:32], end: end}
	if acceptor {
		c.send, c.receive = c.receive, c.send
	}
	return c
}

// fakeKey returns a key of 16 bytes.
func fakeKey(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return string(sum[:16])
}

func (c *fakeContext) Mechanism() string        { return "fake" }
func (c *fakeContext) Expires() time.Time       { return c.end }
func (c *fakeContext) MICSize() int             { return fakeMIC }
func (c *fakeContext) WrapOverhead() (int, int) { return fakeBefore, fakeAfter }
func fakeError(m gss.Major) error               { return &gss.Error{Major: m, Err: errFake} }
func hmacSum(key []byte, n int, message [][]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range message {
		h.Write(part)
	}
	return h.Sum(nil)[:n]
}

// isBroken reports whether the context makes no more tokens.
func (c *fakeContext) isBroken() bool { return c.broken.Load() > 0 && c.broken.Add(-1) == 0 }

func (c *fakeContext) AppendMIC(dst []byte, message [][]byte) ([]byte, error) {
	if c.isBroken() {
		c.broken.Store(1)
		return dst, fakeError(gss.ContextExpired)
	}
	return append(dst, hmacSum(c.send, fakeMIC, message)...), nil
}

func (c *fakeContext) VerifyMIC(token []byte, message [][]byte) error {
	if f := c.verifying; f != nil {
		c.verifying = nil
		f()
	}
	if !hmac.Equal(token, hmacSum(c.receive, fakeMIC, message)) {
		return fakeError(gss.BadMIC)
	}
	return nil
}

// applyCipher encrypts or decrypts the parts, of which the first is before. Its first
// bytes are the nonce.
func (c *fakeContext) applyCipher(key, before []byte, parts ...[]byte) {
	block, _ := aes.NewCipher(key)
	stream := cipher.NewCTR(block, before[:16])
	stream.XORKeyStream(before[16:], before[16:])
	for _, part := range parts {
		stream.XORKeyStream(part, part)
	}
}

func (c *fakeContext) Wrap(before []byte, message [][]byte, after []byte) error {
	if c.isBroken() {
		c.broken.Store(1)
		return fakeError(gss.ContextExpired)
	}
	if len(before) != fakeBefore || len(after) != fakeAfter {
		panic("sizes of a token")
	}
	clear(before)
	binary.BigEndian.PutUint64(before, c.tokens.Add(1))
	copy(after, hmacSum(c.send, fakeAfter, append([][]byte{before}, message...)))
	c.applyCipher(c.send, before, message...)
	return nil
}

func (c *fakeContext) Unwrap(token [][]byte) ([][]byte, error) {
	whole := token[0]
	if len(token) != 1 || len(whole) < fakeBefore+fakeAfter {
		return nil, fakeError(gss.DefectiveToken)
	}
	before, message, after := whole[:fakeBefore], whole[fakeBefore:len(whole)-fakeAfter], whole[len(whole)-fakeAfter:]
	c.applyCipher(c.receive, before, message)
	if !hmac.Equal(after, hmacSum(c.receive, fakeAfter, [][]byte{before, message})) {
		clear(message)
		return nil, fakeError(gss.BadMIC)
	}
	return append(token[:0], message), nil
}

// A fakeAcceptor believes tokens of the form "name number", once each.
type fakeAcceptor struct {
	life time.Duration                   // the contexts' lifetime
	make func(acceptor bool) gss.Context // a context of another mechanism; may be nil
	gate chan struct{}                   // tokens wait for it; may be nil

	mu       sync.Mutex
	seen     map[string]bool
	contexts []*fakeContext
	bindings []byte // from the last token
	waiting  int
}

func (a *fakeAcceptor) Accept(ctx context.Context, token, bindings []byte) (gss.Accepted, error) {
	if a.gate != nil {
		a.mu.Lock()
		a.waiting++
		a.mu.Unlock()
		<-a.gate
	}
	name, _, ok := strings.Cut(string(token), " ")
	if !ok {
		return gss.Accepted{}, &gss.Error{Major: gss.DefectiveToken, Minor: 7, Token: []byte("error"), Err: errFake}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bindings = bindings
	if a.seen[string(token)] {
		return gss.Accepted{}, &gss.Error{Major: gss.DuplicateToken, Err: errFake}
	}
	if a.seen == nil {
		a.seen = make(map[string]bool)
	}
	a.seen[string(token)] = true
	life := a.life
	if life == 0 {
		life = time.Hour
	}
	c := newFakeContext(fakeKey(string(token)), true, time.Now().Add(life))
	a.contexts = append(a.contexts, c)
	made := gss.Context(c)
	if a.make != nil {
		made = a.make(true)
	}
	return gss.Accepted{
		Context: made, Token: []byte("yes " + string(token)),
		Principal: gss.Principal{Name: strings.Split(name, "/"), Realm: "TEST.EXAMPLE"},
	}, nil
}
