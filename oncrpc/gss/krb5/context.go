package krb5

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// An Establishment is the result of an AP-REQ/AP-REP exchange, from which either end
// creates its Context.
type Establishment struct {
	// Key is the acceptor's subkey if it has asserted one, else the initiator's subkey if
	// it has asserted one, else the ticket's session key (RFC 4121, Section 2).
	Key Key

	// AcceptorSubkey reports that the acceptor has asserted Key. All tokens in both
	// directions then have a flag for that (RFC 4121, Section 4.2.2).
	AcceptorSubkey bool

	// Acceptor reports that this end is the acceptor, not the initiator.
	Acceptor bool

	// Sequence is the sequence number of the first token that this end sends, from its
	// authenticator or AP-REP.
	Sequence uint64

	// Expires is the time when the ticket expires.
	Expires time.Time
}

// A Context is one end of a security context. It implements gss.Context.
type Context struct {
	enctype      Enctype
	expires      time.Time
	sendFlags    byte // flags in this end's tokens, without Sealed
	receiveFlags byte // flags in the other end's tokens
	sequence     atomic.Uint64
	signing      macKey
	verifying    macKey
	sealing      sealKey
	opening      sealKey
	wrapSuffix   int
}

var _ gss.Context = (*Context)(nil)

// NewContext derives a context's keys, and keeps them but not e.Key. It fails if this
// package does not support the key's type or length.
func NewContext(e Establishment) (*Context, error) {
	key, err := newKey(e.Key.Enctype, e.Key.Value)
	if err != nil {
		return nil, err
	}
	p := profiles[key.Enctype]
	c := &Context{enctype: key.Enctype, expires: e.Expires, wrapSuffix: headerSize + p.macSize}
	c.sequence.Store(e.Sequence)
	if e.AcceptorSubkey {
		c.sendFlags, c.receiveFlags = flagAcceptorSubkey, flagAcceptorSubkey
	}
	sign, verify, seal, open := usageInitiatorSign, usageAcceptorSign, usageInitiatorSeal, usageAcceptorSeal
	if e.Acceptor {
		sign, verify, seal, open = verify, sign, open, seal
		c.sendFlags |= flagSentByAcceptor
	} else {
		c.receiveFlags |= flagSentByAcceptor
	}
	c.signing = newMACKey(p, key.deriveKey(sign, forChecksum, p.macKeySize))
	c.verifying = newMACKey(p, key.deriveKey(verify, forChecksum, p.macKeySize))
	c.sealing.initSealing(key, seal)
	c.opening.initOpening(key, open)
	return c, nil
}

// Format writes Mechanism's result for any verb, and never a key.
func (c *Context) Format(f fmt.State, _ rune) { io.WriteString(f, c.Mechanism()) }

// Mechanism returns "krb5" and the encryption type.
func (c *Context) Mechanism() string { return "krb5 " + c.enctype.String() }

// Expires returns the time when the ticket expires. The context's users must add Skew to
// it, because the two clocks may differ by that.
func (c *Context) Expires() time.Time { return c.expires }

// MICSize returns a MIC token's size.
func (c *Context) MICSize() int { return headerSize + c.signing.size }

// nextSequence returns the next token's sequence number.
func (c *Context) nextSequence() uint64 { return c.sequence.Add(1) - 1 }

// AppendMIC appends a MIC token for message to dst (RFC 4121, Section 4.2.6.1).
// It always succeeds.
func (c *Context) AppendMIC(dst []byte, message [][]byte) ([]byte, error) {
	n := len(dst)
	var header [headerSize]byte
	putHeader(header[:], idMIC, c.sendFlags, c.nextSequence())
	dst = append(dst, header[:]...)
	h := c.signing.getHash()
	h.writeAll(message)
	h.Write(dst[n:])
	return c.signing.appendSum(dst, h), nil
}

// VerifyMIC checks a MIC token from the other end.
func (c *Context) VerifyMIC(token []byte, message [][]byte) error {
	if len(token) < headerSize {
		return errShort
	}
	if err := checkHeader(token, idMIC, c.receiveFlags); err != nil {
		return err
	}
	h := c.verifying.getHash()
	h.writeAll(message)
	h.Write(token[:headerSize])
	if !c.verifying.verifySum(h, token[headerSize:]) {
		return errMIC
	}
	return nil
}

const wrapPrefix = headerSize + confounderSize

// WrapOverhead returns the total size of header and confounder before the message, and of
// encrypted header and MAC after it.
func (c *Context) WrapOverhead() (before, after int) { return wrapPrefix, c.wrapSuffix }

var errOverhead = &gss.Error{Major: gss.Failure, Err: errors.New("the space around the message does not have the sizes that WrapOverhead returns")}

// Wrap creates a sealed Wrap token (RFC 4121, Section 4.2.6.2) with extra count and
// rotation 0. It fails only if before or after has a wrong size.
func (c *Context) Wrap(before []byte, message [][]byte, after []byte) error {
	if len(before) != wrapPrefix || len(after) != c.wrapSuffix {
		return errOverhead
	}
	putHeader(before, idWrap, c.sendFlags|flagSealed, c.nextSequence())
	copy(after, before[:headerSize])
	w := getWrapBuffer()
	w.fillConfounder(before[headerSize:])
	w.text = append(w.text, before[headerSize:])
	w.text = append(w.text, message...)
	w.text = append(w.text, after[:headerSize])
	c.sealing.seal(w.text, after[headerSize:])
	w.release()
	return nil
}

// Unwrap opens a sealed Wrap token from the other end, with any extra count and rotation.
// With AES and SHA-2 it checks the MAC before it decrypts (RFC 8009, Section 5); with AES
// and SHA-1 it decrypts first, and clears token if the check fails.
func (c *Context) Unwrap(token [][]byte) ([][]byte, error) {
	size, mac := totalLength(token), c.opening.integrity.size
	extra := size - wrapPrefix - c.wrapSuffix // for message and filler
	if extra < 0 {
		return nil, errShort
	}
	w := getWrapBuffer()
	defer w.release()
	at := cursor{rest: token}
	at.gather(w.header[:])
	if err := checkHeader(w.header[:], idWrap, c.receiveFlags|flagSealed); err != nil {
		return nil, err
	}
	filled := w.header.extraCount()
	if filled > extra {
		return nil, errExtraCount
	}
	if n := w.header.rotation() % (size - headerSize); n > 0 {
		rotateLeft(token, headerSize, size-headerSize, n)
	}
	at = cursorAt(token, size-mac)
	at.gather(w.mac[:mac])
	w.text = appendRange(w.text, token, headerSize, size-mac)
	if !c.opening.open(w.text, w.mac[:mac]) {
		return nil, errMIC
	}
	at = cursorAt(token, size-mac-headerSize)
	at.gather(w.inner[:])
	copy(w.header[6:8], "\x00\x00") // the sender rotated after encrypting (RFC 4121, Section 4.2.4)
	if subtle.ConstantTimeCompare(w.header[:], w.inner[:]) != 1 {
		clearAll(w.text)
		return nil, errInner
	}
	return appendRange(token[:0], token, wrapPrefix, wrapPrefix+extra-filled), nil
}

// A wrapBuffer is pooled memory for one Wrap or Unwrap.
type wrapBuffer struct {
	text          [][]byte // the token's encrypted part
	header, inner wrapHeader
	mac           [64]byte
	random        [16 * confounderSize]byte // the last unused bytes are confounders to come
	unused        int
}

var wrapBuffers = sync.Pool{New: func() any { return new(wrapBuffer) }}

func getWrapBuffer() *wrapBuffer { return wrapBuffers.Get().(*wrapBuffer) }

// release returns w to the pool, without the caller's slices.
func (w *wrapBuffer) release() {
	clear(w.text)
	w.text = w.text[:0]
	wrapBuffers.Put(w)
}

// fillConfounder fills b with random bytes that were never used before. It reads several
// confounders from the kernel at once.
func (w *wrapBuffer) fillConfounder(b []byte) {
	if w.unused == 0 {
		rand.Read(w.random[:])
		w.unused = len(w.random)
	}
	from := w.random[len(w.random)-w.unused:][:confounderSize]
	copy(b, from)
	clear(from)
	w.unused -= confounderSize
}
