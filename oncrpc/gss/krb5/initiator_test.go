package krb5

import (
	"cmp"
	"encoding/asn1"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// A fakeInitiator makes the first tokens that a KDC and an initiator would make
// together. Tests change its fields.
type fakeInitiator struct {
	oid     []byte
	id      uint16
	version int64 // in all messages
	message int64 // the type of the AP-REQ
	options uint32

	server     gss.Principal // whose key encrypts the ticket
	named      gss.Principal // in the ticket's clear part
	serviceKey Key
	kvno       uint32 // none if 0
	enctype    Enctype

	client           gss.Principal
	flags            uint32
	session          Key
	start, auth, end time.Time // no starttime if start is zero
	ticketData       []int32   // types of authorization data

	claimed      gss.Principal // in the authenticator
	ctime        time.Time
	ctimeText    string // in the place of ctime
	cusec        int64
	subkey       Key // none if its enctype is 0
	sequence     int64
	noSequence   bool
	sealedAs     Enctype // the authenticator's, if not the session key's
	checksumType int32
	checksum     []byte
	authData     []int32
}

var (
	alice     = gss.Principal{Name: []string{"alice"}, Realm: "TEST.EXAMPLE"}
	nfsServer = gss.Principal{Name: []string{"nfs", "server.test.example"}, Realm: "TEST.EXAMPLE"}
	testTime  = time.Date(2027, time.March, 4, 5, 6, 7, 0, time.UTC)
)

func testKey(e Enctype, seed byte) Key {
	value := make([]byte, profiles[e].keySize)
	for i := range value {
		value[i] = seed + byte(i)
	}
	return Key{e, value}
}

func newChecksum(flags uint32, bindings []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, bindingsSize)
	if bindings == nil {
		b = append(b, make([]byte, bindingsSize)...)
	} else {
		b = append(b, bindingsSum(bindings)...)
	}
	return binary.LittleEndian.AppendUint32(b, flags)
}

const usualFlags = flagMutual | 4 | 8 | 16 | 32

func newFakeInitiator() *fakeInitiator {
	return &fakeInitiator{
		oid: oidKerberos, id: tokenAPReq, version: protocolVersion, message: messageAPReq,
		server: nfsServer, named: nfsServer, serviceKey: testKey(AES256SHA1, 1), kvno: 3, enctype: AES256SHA1,
		client: alice, session: testKey(AES128SHA1, 2), auth: testTime.Add(-time.Hour), end: testTime.Add(time.Hour),
		claimed: alice, ctime: testTime, cusec: 123456, sequence: 77, checksumType: checksumType, checksum: newChecksum(usualFlags, nil),
	}
}

// newToken returns a token with a ticket and authenticator of its own each time.
func (f *fakeInitiator) newToken() []byte {
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.Tag(tagApplication0), func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.OBJECT_IDENTIFIER, func(b *cryptobyte.Builder) { b.AddBytes(f.oid) })
		b.AddUint16(f.id)
		b.AddBytes(f.apReq())
	})
	return b.BytesOrPanic()
}

func (f *fakeInitiator) apReq() []byte {
	return buildType(messageAPReq, func(b *cryptobyte.Builder) {
		addInt(b, 0, f.version)
		addInt(b, 1, f.message)
		addFlags(b, 2, f.options)
		b.AddASN1(contextTag(3), func(b *cryptobyte.Builder) {
			b.AddASN1(applicationTag(tagTicket), func(b *cryptobyte.Builder) {
				b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
					addInt(b, 0, f.version)
					addString(b, 1, f.named.Realm)
					addName(b, 2, f.named.Name)
					b.AddASN1(contextTag(3), func(b *cryptobyte.Builder) {
						b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
							addInt(b, 0, int64(f.enctype))
							if f.kvno != 0 {
								addInt(b, 1, int64(f.kvno))
							}
							b.AddASN1(contextTag(2), func(b *cryptobyte.Builder) {
								b.AddASN1OctetString(f.serviceKey.encrypt(usageTicket, f.ticketPart()))
							})
						})
					})
				})
			})
		})
		cipher := f.session.encryptAny(usageAuthenticator, f.newAuthenticator())
		addEncrypted(b, 4, cmp.Or(f.sealedAs, f.session.Enctype), cipher)
	})
}

// encryptAny is encrypt for keys whose enctype is not known to this package, too.
func (k Key) encryptAny(u usage, plain []byte) []byte {
	if profiles[k.Enctype] == nil {
		return plain
	}
	return k.encrypt(u, plain)
}

func (f *fakeInitiator) ticketPart() []byte {
	return buildType(tagEncTicketPart, func(b *cryptobyte.Builder) {
		addFlags(b, 0, f.flags)
		addKey(b, 1, f.session)
		addString(b, 2, f.client.Realm)
		addName(b, 3, f.client.Name)
		b.AddASN1(contextTag(4), func(b *cryptobyte.Builder) { addTagged(b, 1, 1, []byte("")) })
		addTime(b, 5, f.auth)
		if !f.start.IsZero() {
			addTime(b, 6, f.start)
		}
		addTime(b, 7, f.end)
		addTime(b, 8, f.end.Add(time.Hour))
		b.AddASN1(contextTag(9), func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) { addTagged(b, 2, 1, []byte{192, 0, 2, 1}) })
		})
		addAuthorization(b, 10, f.ticketData)
	})
}

func (f *fakeInitiator) newAuthenticator() []byte {
	return buildType(tagAuthenticator, func(b *cryptobyte.Builder) {
		addInt(b, 0, f.version)
		addString(b, 1, f.claimed.Realm)
		addName(b, 2, f.claimed.Name)
		if f.checksum != nil {
			b.AddASN1(contextTag(3), func(b *cryptobyte.Builder) { addTagged(b, f.checksumType, 1, f.checksum) })
		}
		addInt(b, 4, f.cusec)
		if f.ctimeText == "" {
			addTime(b, 5, f.ctime)
		} else {
			b.AddASN1(contextTag(5), func(b *cryptobyte.Builder) {
				b.AddASN1(cbasn1.GeneralizedTime, func(b *cryptobyte.Builder) { b.AddBytes([]byte(f.ctimeText)) })
			})
		}
		if f.subkey.Enctype != 0 {
			addKey(b, 6, f.subkey)
		}
		if !f.noSequence {
			addInt(b, 7, f.sequence)
		}
		addAuthorization(b, 8, f.authData)
	})
}

func addFlags(b *cryptobyte.Builder, n uint8, flags uint32) {
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) { b.AddASN1BitString(binary.BigEndian.AppendUint32(nil, flags)) })
}

func addAuthorization(b *cryptobyte.Builder, n uint8, types []int32) {
	if types == nil {
		return
	}
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			for _, t := range types {
				addTagged(b, t, 1, []byte("data"))
			}
		})
	})
}

// An apRepPart is EncAPRepPart, for encoding/asn1.
type apRepPart struct {
	CTime  time.Time `asn1:"explicit,tag:0,generalized"`
	CUsec  int       `asn1:"explicit,tag:1"`
	Subkey struct {
		Type  int    `asn1:"explicit,tag:0"`
		Value []byte `asn1:"explicit,tag:1"`
	} `asn1:"explicit,optional,tag:2"`
	Sequence int64 `asn1:"explicit,optional,tag:3"`
}

// An apRepMessage is AP-REP.
type apRepMessage struct {
	Version int `asn1:"explicit,tag:0"`
	Type    int `asn1:"explicit,tag:1"`
	Part    struct {
		Type   int    `asn1:"explicit,tag:0"`
		Cipher []byte `asn1:"explicit,tag:2"`
	} `asn1:"explicit,tag:2"`
}

// A krbErrorMessage is KRB-ERROR without its optional fields.
type krbErrorMessage struct {
	Version int           `asn1:"explicit,tag:0"`
	Type    int           `asn1:"explicit,tag:1"`
	STime   time.Time     `asn1:"explicit,tag:4,generalized"`
	SUsec   int           `asn1:"explicit,tag:5"`
	Code    int           `asn1:"explicit,tag:6"`
	Realm   asn1.RawValue `asn1:"explicit,tag:9"`
	Name    struct {
		Type int             `asn1:"explicit,tag:0"`
		Text []asn1.RawValue `asn1:"explicit,tag:1"`
	} `asn1:"explicit,tag:10"`
}

// readAnswer takes an answer apart with encoding/asn1, a second opinion.
func readAnswer(t *testing.T, token []byte, id uint16, tag int, out any) {
	t.Helper()
	message, err := unframeToken(token)
	require.NoError(t, err)
	require.Equal(t, id, binary.BigEndian.Uint16(message))
	readDER(t, message[2:], tag, out)
}

func readDER(t *testing.T, b []byte, tag int, out any) {
	t.Helper()
	var outer asn1.RawValue
	rest, err := asn1.Unmarshal(b, &outer)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, []int{asn1.ClassApplication, tag}, []int{outer.Class, outer.Tag})
	rest, err = asn1.Unmarshal(outer.Bytes, out)
	require.NoError(t, err)
	require.Empty(t, rest)
}

// completeContext makes the initiator's context from the acceptor's answer.
func (f *fakeInitiator) completeContext(t *testing.T, answer []byte) (*Context, apRepPart) {
	t.Helper()
	var rep apRepMessage
	readAnswer(t, answer, tokenAPRep, messageAPRep, &rep)
	require.Equal(t, []int{protocolVersion, messageAPRep, int(f.session.Enctype)}, []int{rep.Version, rep.Type, rep.Part.Type})
	plain, err := f.session.decrypt(usageAPRep, rep.Part.Cipher)
	require.NoError(t, err)
	var part apRepPart
	readDER(t, plain, tagEncAPRepPart, &part)
	c, err := NewContext(Establishment{
		Key: Key{Enctype(part.Subkey.Type), part.Subkey.Value}, AcceptorSubkey: true, Sequence: uint64(f.sequence), Expires: f.end,
	})
	require.NoError(t, err)
	return c, part
}

// keytabFile returns a version 0x0502 keytab.
func keytabFile(entries ...keytabEntry) []byte {
	file := []byte{5, 2}
	for _, e := range entries {
		entry := encodeEntry(e, true)
		file = append(binary.BigEndian.AppendUint32(file, uint32(len(entry))), entry...)
	}
	return file
}

func encodeEntry(e keytabEntry, longVersion bool) []byte {
	counted := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
	}
	b := binary.BigEndian.AppendUint16(nil, uint16(len(e.principal.Name)))
	b = counted(b, e.principal.Realm)
	for _, s := range e.principal.Name {
		b = counted(b, s)
	}
	b = append(b, 0, 0, 0, 1, 0x6b, 0, 0, 0, byte(e.kvno))
	b = counted(binary.BigEndian.AppendUint16(b, uint16(e.enctype)), string(e.value))
	if longVersion {
		b = binary.BigEndian.AppendUint32(b, e.kvno)
	}
	return b
}

func newEntry(p gss.Principal, kvno uint32, k Key) keytabEntry {
	return keytabEntry{p, kvno, k.Enctype, k.Value}
}
