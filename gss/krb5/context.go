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

	"github.com/nfsrdma/nfsrdma/gss"
)

// An Establishment is the outcome of an exchange of AP-REQ and AP-REP, from
// which either end makes its Context.
type Establishment struct {
	// Key is the acceptor's subkey if it has asserted one, else the initiator's
	// subkey if it has asserted one, else the session key of the ticket (RFC 4121,
	// Section 2).
	Key Key

	// AcceptorSubkey says that the acceptor has asserted Key. All tokens of both
	// directions then say so (RFC 4121, Section 4.2.2).
	AcceptorSubkey bool

	// Acceptor says that this end is the acceptor, and not the initiator.
	Acceptor bool

	// Sequence is the number of the first token that this end sends: that of its
	// authenticator or AP-REP.
	Sequence uint64

	// Expires is the end of the ticket.
	Expires time.Time
}

// A Context is one end of a security context. It implements gss.Context.
type Context struct {
	enctype    Enctype
	expires    time.Time
	sends      byte // flags of this end's tokens, Sealed apart
	takes      byte // flags of the other end's
	sequence   atomic.Uint64
	signing    macKey
	verifying  macKey
	sealing    sealKey
	opening    sealKey
	wrapBehind int
}

var _ gss.Context = (*Context)(nil)

// NewContext derives the keys of a context, and keeps them but not e.Key. The
// error says that the key's type or length is not one of this package's.
func NewContext(e Establishment) (*Context, error) {
	key, err := NewKey(e.Key.Enctype, e.Key.Value)
	if err != nil {
		return nil, err
	}
	p := profiles[key.Enctype]
	c := &Context{enctype: key.Enctype, expires: e.Expires, wrapBehind: headerSize + p.macSize}
	c.sequence.Store(e.Sequence)
	if e.AcceptorSubkey {
		c.sends, c.takes = flagAcceptorSubkey, flagAcceptorSubkey
	}
	sign, verify, seal, open := usageInitiatorSign, usageAcceptorSign, usageInitiatorSeal, usageAcceptorSeal
	if e.Acceptor {
		sign, verify, seal, open = verify, sign, open, seal
		c.sends |= flagSentByAcceptor
	} else {
		c.takes |= flagSentByAcceptor
	}
	c.signing = newMACKey(p, key.derive(sign, forChecksum, p.macKeySize))
	c.verifying = newMACKey(p, key.derive(verify, forChecksum, p.macKeySize))
	c.sealing.initSealing(key, seal)
	c.opening.initOpening(key, open)
	return c, nil
}

// Format writes what Mechanism returns, for any verb, and never a key.
func (c *Context) Format(f fmt.State, _ rune) { io.WriteString(f, c.Mechanism()) }

// Mechanism names Kerberos and the encryption type.
func (c *Context) Mechanism() string { return "krb5 " + c.enctype.String() }

// Expires returns the end of the ticket. Users of the context must add Skew to
// it, because the clocks of the ends may differ by that.
func (c *Context) Expires() time.Time { return c.expires }

// MICSize returns the size of a MIC token.
func (c *Context) MICSize() int { return headerSize + c.signing.size }

// next returns the number of the next token.
func (c *Context) next() uint64 { return c.sequence.Add(1) - 1 }

// AppendMIC appends a MIC token for message to dst (RFC 4121, Section 4.2.6.1).
// It always succeeds.
func (c *Context) AppendMIC(dst []byte, message [][]byte) ([]byte, error) {
	n := len(dst)
	var header [headerSize]byte
	putHeader(header[:], idMIC, c.sends, c.next())
	dst = append(dst, header[:]...)
	h := c.signing.begin()
	h.writeAll(message)
	h.Write(dst[n:])
	return c.signing.appendSum(dst, h), nil
}

// VerifyMIC checks a MIC token of the other end.
func (c *Context) VerifyMIC(token []byte, message [][]byte) error {
	if len(token) < headerSize {
		return errShort
	}
	if err := checkHeader(token, idMIC, c.takes); err != nil {
		return err
	}
	h := c.verifying.begin()
	h.writeAll(message)
	h.Write(token[:headerSize])
	if !c.verifying.verify(h, token[headerSize:]) {
		return errMIC
	}
	return nil
}

const wrapBefore = headerSize + confounderSize

// WrapRoom returns the sizes of header and confounder before the message, and of
// the encrypted header and the MAC after it.
func (c *Context) WrapRoom() (before, after int) { return wrapBefore, c.wrapBehind }

var errRoom = &gss.Error{Major: gss.Failure, Err: errors.New("the room around the message has not the sizes of WrapRoom")}

// Wrap makes a sealed Wrap token (RFC 4121, Section 4.2.6.2) with an extra count
// and a rotation of 0. The only error is one of the sizes of before and after.
func (c *Context) Wrap(before []byte, message [][]byte, after []byte) error {
	if len(before) != wrapBefore || len(after) != c.wrapBehind {
		return errRoom
	}
	putHeader(before, idWrap, c.sends|flagSealed, c.next())
	copy(after, before[:headerSize])
	w := getWork()
	w.confound(before[headerSize:])
	w.text = append(w.text, before[headerSize:])
	w.text = append(w.text, message...)
	w.text = append(w.text, after[:headerSize])
	c.sealing.seal(w.text, after[headerSize:])
	w.release()
	return nil
}

// Unwrap opens a sealed Wrap token of the other end, with any extra count and
// rotation. With AES and SHA-2 it checks the MAC before it decrypts (RFC 8009,
// Section 5); with AES and SHA-1 it decrypts first, and clears token if the check
// fails.
func (c *Context) Unwrap(token [][]byte) ([][]byte, error) {
	size, mac := length(token), c.opening.integrity.size
	extra := size - wrapBefore - c.wrapBehind // for message and filler
	if extra < 0 {
		return nil, errShort
	}
	w := getWork()
	defer w.release()
	at := cursor{rest: token}
	at.gather(w.header[:])
	if err := checkHeader(w.header[:], idWrap, c.takes|flagSealed); err != nil {
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
	copy(w.header[6:8], "\x00\x00") // the rotation came after the encryption (RFC 4121, Section 4.2.4)
	if subtle.ConstantTimeCompare(w.header[:], w.inner[:]) != 1 {
		clearAll(w.text)
		return nil, errInner
	}
	return appendRange(token[:0], token, wrapBefore, wrapBefore+extra-filled), nil
}

// A work is lent memory of one Wrap or Unwrap.
type work struct {
	text          [][]byte // the encrypted part of the token
	header, inner wrapHeader
	mac           [64]byte
	random        [16 * confounderSize]byte // confounders to come: its last unused bytes
	unused        int
}

var works = sync.Pool{New: func() any { return new(work) }}

func getWork() *work { return works.Get().(*work) }

// release gives w back, without the slices of the caller.
func (w *work) release() {
	clear(w.text)
	w.text = w.text[:0]
	works.Put(w)
}

// confound fills b with bytes that were never used before. The kernel is asked
// for several confounders at once.
func (w *work) confound(b []byte) {
	if w.unused == 0 {
		rand.Read(w.random[:])
		w.unused = len(w.random)
	}
	from := w.random[len(w.random)-w.unused:][:confounderSize]
	copy(b, from)
	clear(from)
	w.unused -= confounderSize
}
