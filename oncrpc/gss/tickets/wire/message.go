package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Version is the protocol version. It is a Request's first field.
const Version = 2

// MaxMessage is the maximum length of a message in bytes, without the length itself.
const MaxMessage = 128 << 10

// Field limits.
const (
	maxToken = 64 << 10
	maxKey   = 64
	maxText  = 4096
	maxList  = 64
)

// A Message is one of *Request, *Token, *Keys and *Failure.
type Message interface {
	kindNumber() uint32
	appendFields(b []byte) []byte
	readFields(r *xdr.Reader)
}

// Message kinds.
const (
	kindRequest uint32 = 1 + iota
	kindToken
	kindKeys
	kindFailure
)

// newMessage returns an empty message, or nil if the kind is unknown.
func newMessage(kind uint32) Message {
	switch kind {
	case kindRequest:
		return new(Request)
	case kindToken:
		return new(Token)
	case kindKeys:
		return new(Keys)
	case kindFailure:
		return new(Failure)
	}
	return nil
}

// A Request requests a context from the helper.
type Request struct {
	// Service is the service's name and host: nfs@server.example.
	Service string

	// Caches are the credential caches, in the order in which the helper tries
	// them. An empty name means the cache in the Kerberos configuration.
	Caches []string

	// Keytab, if not empty, is the file with whose keys the helper gets tickets, instead
	// of using the caches. Principals are the names in the keytab, in the order in which
	// the helper tries them; an empty one means the keytab's first.
	Keytab     string
	Principals []string

	// Enctypes are the encryption types that the context may have.
	Enctypes []uint32

	// Bindings are the server connection's channel bindings, prefixed with their type
	// (RFC 5056, Section 2.1), or empty.
	Bindings []byte
}

// A Token is for the context's other end, or from it.
type Token struct{ Token []byte }

// Keys are a complete context's secrets and parameters. Formatted output never contains
// the key.
type Keys struct {
	Enctype  uint32
	Key      []byte
	Subkey   bool   // the acceptor has asserted Key
	Sequence uint64 // the initiator's first sequence number
	Expires  uint64 // when the ticket expires, in seconds since 1970
	User     string // the principal
}

// Format writes the principal and the encryption type, for any verb.
func (m Keys) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "keys of %s, encryption type %d", m.User, m.Enctype)
}

// A Reason classifies a Failure.
type Reason uint32

// The reasons. The mount treats a reason that it does not know as Other.
const (
	Other       Reason = iota // only the text describes the reason
	NoTicket                  // no cache has a ticket
	Expired                   // the ticket has expired
	Clock                     // clocks differ by too much
	NoKDC                     // no KDC answers
	NoService                 // the KDC does not know the service
	NoLibrary                 // the helper cannot use Kerberos on this machine
	BadVersion                // the helper does not support the Request's version
	reasonCount int    = iota
)

// A Failure reports why there is no context. It implements error.
type Failure struct {
	Reason Reason
	Text   string // text for the user, with the remedy
	Cache  string // the credential cache, if the reason is Expired or NoTicket
	Ended  uint64 // when the ticket expired, if the reason is Expired, in seconds since 1970
}

// Error returns the text.
func (m *Failure) Error() string { return m.Text }

// Errors returned by Read and Parse.
var (
	ErrVersion = errors.New("the mount and nfsrdma-gss have different versions")
	ErrKind    = errors.New("a message has an unknown kind")
	ErrLength  = errors.New("a message has an impossible length")
)

// Write writes a message with its length.
func Write(w io.Writer, m Message) error {
	b := m.appendFields(xdr.AppendUint32(make([]byte, 4), m.kindNumber()))
	if len(b)-4 > MaxMessage {
		return ErrLength
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := w.Write(b)
	clear(b) // it may have contained a key
	return err
}

// Read reads a message. If r ends before a message, the error is io.EOF.
func Read(r io.Reader) (Message, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > MaxMessage {
		return nil, ErrLength
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("a message was truncated: %w", err)
	}
	return Parse(b)
}

// Parse reads a message without its length. The message's slices alias b.
func Parse(b []byte) (Message, error) {
	r := xdr.NewReader(b)
	m := newMessage(r.Uint32())
	if m == nil {
		return nil, ErrKind
	}
	m.readFields(&r)
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}

func (*Request) kindNumber() uint32 { return kindRequest }
func (*Token) kindNumber() uint32   { return kindToken }
func (*Keys) kindNumber() uint32    { return kindKeys }
func (*Failure) kindNumber() uint32 { return kindFailure }

func (m *Request) appendFields(b []byte) []byte {
	b = xdr.AppendUint32(b, Version)
	b = xdr.AppendString(b, m.Service)
	b = appendStrings(b, m.Caches)
	b = xdr.AppendString(b, m.Keytab)
	b = appendStrings(b, m.Principals)
	b = xdr.AppendUint32(b, uint32(len(m.Enctypes)))
	for _, e := range m.Enctypes {
		b = xdr.AppendUint32(b, e)
	}
	return xdr.AppendOpaque(b, m.Bindings)
}

func (m *Request) readFields(r *xdr.Reader) {
	if r.Uint32() != Version {
		r.Fail(ErrVersion)
	}
	m.Service = r.String(maxText)
	m.Caches = readStrings(r)
	m.Keytab = r.String(maxText)
	m.Principals = readStrings(r)
	for range readCount(r) {
		m.Enctypes = append(m.Enctypes, r.Uint32())
	}
	if b := r.Opaque(maxText); len(b) > 0 {
		m.Bindings = b
	}
}

func (m *Token) appendFields(b []byte) []byte { return xdr.AppendOpaque(b, m.Token) }
func (m *Token) readFields(r *xdr.Reader)     { m.Token = r.Opaque(maxToken) }

func (m *Keys) appendFields(b []byte) []byte {
	b = xdr.AppendUint32(b, m.Enctype)
	b = xdr.AppendOpaque(b, m.Key)
	b = xdr.AppendBool(b, m.Subkey)
	b = xdr.AppendUint64(b, m.Sequence)
	b = xdr.AppendUint64(b, m.Expires)
	return xdr.AppendString(b, m.User)
}

func (m *Keys) readFields(r *xdr.Reader) {
	m.Enctype = r.Uint32()
	m.Key = r.Opaque(maxKey)
	m.Subkey = r.Bool()
	m.Sequence = r.Uint64()
	m.Expires = r.Uint64()
	m.User = r.String(maxText)
}

func (m *Failure) appendFields(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(m.Reason))
	b = xdr.AppendString(b, m.Text)
	b = xdr.AppendString(b, m.Cache)
	return xdr.AppendUint64(b, m.Ended)
}

func (m *Failure) readFields(r *xdr.Reader) {
	if m.Reason = Reason(r.Uint32()); m.Reason >= Reason(reasonCount) {
		m.Reason = Other
	}
	m.Text = r.String(maxText)
	m.Cache = r.String(maxText)
	m.Ended = r.Uint64()
}

func appendStrings(b []byte, list []string) []byte {
	b = xdr.AppendUint32(b, uint32(len(list)))
	for _, s := range list {
		b = xdr.AppendString(b, s)
	}
	return b
}

func readStrings(r *xdr.Reader) (list []string) {
	for range readCount(r) {
		list = append(list, r.String(maxText))
	}
	return list
}

// readCount reads a list's length.
func readCount(r *xdr.Reader) int {
	n := r.Uint32()
	if n > maxList {
		r.Fail(ErrLength)
		return 0
	}
	return int(n)
}
