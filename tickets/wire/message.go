package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// Version is the number of this protocol. It is the first field of a Request.
const Version = 2

// MaxMessage is the length of the longest message, without the length itself, in
// bytes.
const MaxMessage = 128 << 10

// Bounds of fields.
const (
	maxToken = 64 << 10
	maxKey   = 64
	maxText  = 4096
	maxList  = 64
)

// A Message is one of *Request, *Token, *Keys and *Failure.
type Message interface {
	kind() uint32
	append(b []byte) []byte
	read(r *xdr.Reader)
}

// Kinds of messages.
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

// A Request asks the helper for a context.
type Request struct {
	// Service is the name of the service and its host: nfs@server.example.
	Service string

	// Caches are the credential caches, in the order in which the helper tries
	// them. An empty name is the cache of the Kerberos configuration.
	Caches []string

	// Keytab is the file whose keys get the tickets, in the place of the caches, if
	// it is not empty. Principals are the names in the keytab, in the order in which
	// the helper tries them; an empty one is the first of the keytab.
	Keytab     string
	Principals []string

	// Enctypes are the encryption types that the context may have.
	Enctypes []uint32

	// Bindings are the channel bindings of the connection to the server, with their
	// type in front (RFC 5056, Section 2.1), or empty.
	Bindings []byte
}

// A Token is for the other end of the context, or from it.
type Token struct{ Token []byte }

// Keys are the secrets and parameters of a complete context. Formatted output
// never contains the key.
type Keys struct {
	Enctype  uint32
	Key      []byte
	Subkey   bool   // the acceptor has asserted Key
	Sequence uint64 // of the first token that the initiator sends
	Expires  uint64 // end of the ticket, in seconds since 1970
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
	Other       Reason = iota // the words alone say why
	NoTicket                  // no cache has a ticket
	Expired                   // the ticket has expired
	Clock                     // clocks differ by too much
	NoKDC                     // no KDC answers
	NoService                 // the KDC does not know the service
	NoLibrary                 // the helper cannot use Kerberos on this machine
	BadVersion                // the helper does not speak the Request's version
	reasonCount int    = iota
)

// A Failure says why there is no context. It implements error.
type Failure struct {
	Reason Reason
	Words  string // for people, with the remedy
	Cache  string // the credential cache, if the reason is Expired or NoTicket
	Ended  uint64 // end of the ticket, if the reason is Expired, in seconds since 1970
}

// Error returns the words.
func (m *Failure) Error() string { return m.Words }

// Errors of Read and Parse.
var (
	ErrVersion = errors.New("the mount and nfsrdma-gss are of different versions")
	ErrKind    = errors.New("a message of unknown kind")
	ErrLength  = errors.New("a message has an impossible length")
)

// Write writes a message with its length.
func Write(w io.Writer, m Message) error {
	b := m.append(xdr.AppendUint32(make([]byte, 4), m.kind()))
	if len(b)-4 > MaxMessage {
		return ErrLength
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := w.Write(b)
	clear(b) // it may have had a key
	return err
}

// Read reads a message. The end of r in front of a message is io.EOF.
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
		return nil, fmt.Errorf("a message was cut short: %w", err)
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
	m.read(&r)
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}

func (*Request) kind() uint32 { return kindRequest }
func (*Token) kind() uint32   { return kindToken }
func (*Keys) kind() uint32    { return kindKeys }
func (*Failure) kind() uint32 { return kindFailure }

func (m *Request) append(b []byte) []byte {
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

func (m *Request) read(r *xdr.Reader) {
	if r.Uint32() != Version {
		r.Fail(ErrVersion)
	}
	m.Service = r.String(maxText)
	m.Caches = readStrings(r)
	m.Keytab = r.String(maxText)
	m.Principals = readStrings(r)
	for range count(r) {
		m.Enctypes = append(m.Enctypes, r.Uint32())
	}
	if b := r.Opaque(maxText); len(b) > 0 {
		m.Bindings = b
	}
}

func (m *Token) append(b []byte) []byte { return xdr.AppendOpaque(b, m.Token) }
func (m *Token) read(r *xdr.Reader)     { m.Token = r.Opaque(maxToken) }

func (m *Keys) append(b []byte) []byte {
	b = xdr.AppendUint32(b, m.Enctype)
	b = xdr.AppendOpaque(b, m.Key)
	b = xdr.AppendBool(b, m.Subkey)
	b = xdr.AppendUint64(b, m.Sequence)
	b = xdr.AppendUint64(b, m.Expires)
	return xdr.AppendString(b, m.User)
}

func (m *Keys) read(r *xdr.Reader) {
	m.Enctype = r.Uint32()
	m.Key = r.Opaque(maxKey)
	m.Subkey = r.Bool()
	m.Sequence = r.Uint64()
	m.Expires = r.Uint64()
	m.User = r.String(maxText)
}

func (m *Failure) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(m.Reason))
	b = xdr.AppendString(b, m.Words)
	b = xdr.AppendString(b, m.Cache)
	return xdr.AppendUint64(b, m.Ended)
}

func (m *Failure) read(r *xdr.Reader) {
	if m.Reason = Reason(r.Uint32()); m.Reason >= Reason(reasonCount) {
		m.Reason = Other
	}
	m.Words = r.String(maxText)
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
	for range count(r) {
		list = append(list, r.String(maxText))
	}
	return list
}

// count reads the length of a list.
func count(r *xdr.Reader) int {
	n := r.Uint32()
	if n > maxList {
		r.Fail(ErrLength)
		return 0
	}
	return int(n)
}
