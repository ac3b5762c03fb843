package krb5

import (
	encasn1 "encoding/asn1"
	"errors"
	"time"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// The DER encoding of Kerberos messages (RFC 4120, Section 5). Elements after the known
// ones are ignored, as Section 1.4 requires.

const (
	protocolVersion = 5

	tagApplication0 = 0x60 // a first token's tag (RFC 2743, Section 3.1)

	messageAPReq = 14 // RFC 4120, Section 7.5.7; also the tags of the types
	messageAPRep = 15
	messageError = 30

	tagTicket        = 1
	tagAuthenticator = 2
	tagEncTicketPart = 3
	tagEncAPRepPart  = 27
)

var errDER = errors.New("a Kerberos message is malformed")

func applicationTag(n uint8) asn1.Tag { return asn1.Tag(n | 0x40).Constructed() }

func contextTag(n uint8) asn1.Tag { return asn1.Tag(n).ContextSpecific().Constructed() }

// openType returns the fields of a SEQUENCE with an application tag, which must fill b.
func openType(b []byte, tag uint8) (cryptobyte.String, bool) {
	s := cryptobyte.String(b)
	fields, ok := readType(&s, tag)
	return fields, ok && s.Empty()
}

func readType(s *cryptobyte.String, tag uint8) (cryptobyte.String, bool) {
	var outer, fields cryptobyte.String
	ok := s.ReadASN1(&outer, applicationTag(tag)) && outer.ReadASN1(&fields, asn1.SEQUENCE) && outer.Empty()
	return fields, ok
}

// readOptional reads field n from s into out if it is present.
func readOptional(s *cryptobyte.String, n uint8, out *cryptobyte.String, present *bool) bool {
	return s.ReadOptionalASN1(out, present, contextTag(n))
}

func readInt32(s *cryptobyte.String, n uint8, out *int32) bool {
	var f cryptobyte.String
	return s.ReadASN1(&f, contextTag(n)) && f.ReadASN1Integer(out) && f.Empty()
}

// readUint32 also accepts negative numbers, because some senders encode large numbers so.
func readUint32(f cryptobyte.String, out *uint32) bool {
	var v int64
	if !f.ReadASN1Integer(&v) || !f.Empty() || v < -1<<31 || v >= 1<<32 {
		return false
	}
	*out = uint32(v)
	return true
}

func readConstant(s *cryptobyte.String, n uint8, want int32) (got int32, ok bool) {
	ok = readInt32(s, n, &got)
	return got, ok && got == want
}

func readString(s *cryptobyte.String, n uint8, out *string) bool {
	var f, text cryptobyte.String
	if !s.ReadASN1(&f, contextTag(n)) || !f.ReadASN1(&text, asn1.GeneralString) || !f.Empty() {
		return false
	}
	*out = string(text)
	return true
}

// readName reads a PrincipalName, whose type is ignored (RFC 4120, Section 6.2).
func readName(s *cryptobyte.String, n uint8, out *[]string) bool {
	var f, name, list, texts, text cryptobyte.String
	var kind int32
	if !s.ReadASN1(&f, contextTag(n)) || !f.ReadASN1(&name, asn1.SEQUENCE) || !f.Empty() ||
		!readInt32(&name, 0, &kind) || !name.ReadASN1(&list, contextTag(1)) || !list.ReadASN1(&texts, asn1.SEQUENCE) {
		return false
	}
	*out = nil
	for !texts.Empty() {
		if !texts.ReadASN1(&text, asn1.GeneralString) {
			return false
		}
		*out = append(*out, string(text))
	}
	return len(*out) > 0
}

func readTime(f cryptobyte.String, out *time.Time) bool {
	if !f.ReadASN1GeneralizedTime(out) || !f.Empty() {
		return false
	}
	_, offset := out.Zone()
	return offset == 0 // RFC 4120, Section 5.2.3
}

func readTimeField(s *cryptobyte.String, n uint8, out *time.Time) bool {
	var f cryptobyte.String
	return s.ReadASN1(&f, contextTag(n)) && readTime(f, out)
}

// readFlags reads a BIT STRING whose first flag is the highest bit.
func readFlags(s *cryptobyte.String, n uint8, out *uint32) bool {
	var f cryptobyte.String
	var bits encasn1.BitString
	if !s.ReadASN1(&f, contextTag(n)) || !f.ReadASN1BitString(&bits) || !f.Empty() {
		return false
	}
	*out = 0
	for i := range 32 {
		*out |= uint32(bits.At(i)) << (31 - i)
	}
	return true
}

// readTagged reads SEQUENCE { [0] Int32, [1] OCTET STRING } without copying.
func readTagged(f *cryptobyte.String, number *int32, value *cryptobyte.String) bool {
	var pair, second cryptobyte.String
	return f.ReadASN1(&pair, asn1.SEQUENCE) && readInt32(&pair, 0, number) &&
		pair.ReadASN1(&second, contextTag(1)) && second.ReadASN1(value, asn1.OCTET_STRING) && second.Empty()
}

// readKey reads an EncryptionKey with a known type.
func readKey(f cryptobyte.String, out *Key) error {
	var number int32
	var value cryptobyte.String
	if !readTagged(&f, &number, &value) || !f.Empty() {
		return errDER
	}
	key, err := newKey(Enctype(number), value)
	*out = key
	return err
}

// encryptedData is EncryptedData; cipher aliases the token.
type encryptedData struct {
	enctype Enctype
	kvno    uint32
	hasKVNO bool
	cipher  []byte
}

func readEncrypted(s *cryptobyte.String, n uint8, out *encryptedData) bool {
	var f, seq, kvno, second, value cryptobyte.String
	var enctype int32
	if !s.ReadASN1(&f, contextTag(n)) || !f.ReadASN1(&seq, asn1.SEQUENCE) || !f.Empty() || !readInt32(&seq, 0, &enctype) ||
		!readOptional(&seq, 1, &kvno, &out.hasKVNO) || out.hasKVNO && !readUint32(kvno, &out.kvno) ||
		!seq.ReadASN1(&second, contextTag(2)) || !second.ReadASN1(&value, asn1.OCTET_STRING) || !second.Empty() {
		return false
	}
	out.enctype, out.cipher = Enctype(enctype), value
	return true
}

// readAuthorization reports whether all AuthorizationData elements may be ignored: those
// in AD-IF-RELEVANT, and no others (RFC 4120, Section 5.2.6).
func readAuthorization(f cryptobyte.String) (ignorable, ok bool) {
	var list cryptobyte.String
	if !f.ReadASN1(&list, asn1.SEQUENCE) || !f.Empty() {
		return false, false
	}
	ignorable = true
	for !list.Empty() {
		var kind int32
		var value cryptobyte.String
		if !readTagged(&list, &kind, &value) {
			return false, false
		}
		ignorable = ignorable && kind == 1
	}
	return ignorable, true
}

// apReq is AP-REQ (RFC 4120, Section 5.5.1) with its Ticket (Section 5.3). Its
// ciphers alias the token.
type apReq struct {
	options       uint32
	realm         string // the server's; unprotected
	service       []string
	ticket        encryptedData
	authenticator encryptedData
}

const optionUseSessionKey = 1 << (31 - 1)

func parseAPReq(b []byte) (r apReq, err error) {
	s, ok := openType(b, messageAPReq)
	if !ok {
		return r, errDER
	}
	if got, ok := readConstant(&s, 0, protocolVersion); !ok {
		return r, &protocolError{codeBadVersion, got}
	}
	if got, ok := readConstant(&s, 1, messageAPReq); !ok {
		return r, &protocolError{codeMessageType, got}
	}
	var f cryptobyte.String
	if !readFlags(&s, 2, &r.options) || !s.ReadASN1(&f, contextTag(3)) {
		return r, errDER
	}
	t, ok := readType(&f, tagTicket)
	if !ok || !f.Empty() {
		return r, errDER
	}
	if got, ok := readConstant(&t, 0, protocolVersion); !ok {
		return r, &protocolError{codeBadVersion, got}
	}
	if !readString(&t, 1, &r.realm) || !readName(&t, 2, &r.service) || !readEncrypted(&t, 3, &r.ticket) ||
		!readEncrypted(&s, 4, &r.authenticator) {
		return r, errDER
	}
	return r, nil
}

// ticketPart is EncTicketPart (RFC 4120, Section 5.3), without the fields that a server
// ignores.
type ticketPart struct {
	flags      uint32
	key        Key
	client     gss.Principal
	start, end time.Time // start is authtime if there is no starttime
	ignorable  bool      // reports whether the authorization data can be ignored
}

// Ticket flags (RFC 4120, Section 5.3).
const (
	flagInvalid          = 1 << (31 - 7)
	flagTransitedChecked = 1 << (31 - 12)
)

func parseTicketPart(b []byte) (p ticketPart, err error) {
	s, ok := openType(b, tagEncTicketPart)
	var key, transited, starttime, renew, addresses, authorization cryptobyte.String
	if !ok || !readFlags(&s, 0, &p.flags) || !s.ReadASN1(&key, contextTag(1)) {
		return p, errDER
	}
	if err := readKey(key, &p.key); err != nil {
		return p, err
	}
	var hasStart, skipped, hasAuthorization bool
	if !readString(&s, 2, &p.client.Realm) || !readName(&s, 3, &p.client.Name) || !s.ReadASN1(&transited, contextTag(4)) ||
		!readTimeField(&s, 5, &p.start) || !readOptional(&s, 6, &starttime, &hasStart) || hasStart && !readTime(starttime, &p.start) ||
		!readTimeField(&s, 7, &p.end) || !readOptional(&s, 8, &renew, &skipped) || !readOptional(&s, 9, &addresses, &skipped) ||
		!readOptional(&s, 10, &authorization, &hasAuthorization) {
		return p, errDER
	}
	p.ignorable = true
	if hasAuthorization {
		if p.ignorable, ok = readAuthorization(authorization); !ok {
			return p, errDER
		}
	}
	return p, nil
}

// authenticator is Authenticator (RFC 4120, Section 5.5.1).
type authenticator struct {
	client       gss.Principal
	checksumType int32 // 0 if there is no checksum
	checksum     []byte
	cusec        int32
	ctime        time.Time
	subkey       Key // with enctype 0 if there is none
	sequence     uint32
	ignorable    bool
}

func parseAuthenticator(b []byte) (a authenticator, err error) {
	s, ok := openType(b, tagAuthenticator)
	if !ok {
		return a, errDER
	}
	if got, ok := readConstant(&s, 0, protocolVersion); !ok {
		return a, &protocolError{codeBadVersion, got}
	}
	var checksum, value, subkey, sequence, authorization cryptobyte.String
	var hasChecksum, hasSubkey, hasSequence, hasAuthorization bool
	if !readString(&s, 1, &a.client.Realm) || !readName(&s, 2, &a.client.Name) ||
		!readOptional(&s, 3, &checksum, &hasChecksum) || hasChecksum && !readTagged(&checksum, &a.checksumType, &value) ||
		!readInt32(&s, 4, &a.cusec) || a.cusec < 0 || a.cusec > 999999 || !readTimeField(&s, 5, &a.ctime) ||
		!readOptional(&s, 6, &subkey, &hasSubkey) {
		return a, errDER
	}
	a.checksum = value
	if hasSubkey {
		if err := readKey(subkey, &a.subkey); err != nil {
			return a, err
		}
	}
	if !readOptional(&s, 7, &sequence, &hasSequence) || hasSequence && !readUint32(sequence, &a.sequence) ||
		!readOptional(&s, 8, &authorization, &hasAuthorization) {
		return a, errDER
	}
	a.ignorable = true
	if hasAuthorization {
		if a.ignorable, ok = readAuthorization(authorization); !ok {
			return a, errDER
		}
	}
	return a, nil
}
