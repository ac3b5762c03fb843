package krb5

import (
	"time"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// buildType returns a DER SEQUENCE with an application tag.
func buildType(tag uint8, fields func(b *cryptobyte.Builder)) []byte {
	var b cryptobyte.Builder
	b.AddASN1(applicationTag(tag), func(b *cryptobyte.Builder) { b.AddASN1(asn1.SEQUENCE, fields) })
	return b.BytesOrPanic() // years have four digits, and nothing is longer than a token
}

func addInt(b *cryptobyte.Builder, n uint8, v int64) {
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) { b.AddASN1Int64(v) })
}

func addTime(b *cryptobyte.Builder, n uint8, t time.Time) {
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) { b.AddASN1GeneralizedTime(t.UTC()) })
}

func addString(b *cryptobyte.Builder, n uint8, s string) {
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) { addText(b, s) })
}

func addText(b *cryptobyte.Builder, s string) {
	b.AddASN1(asn1.GeneralString, func(b *cryptobyte.Builder) { b.AddBytes([]byte(s)) })
}

const nameServiceInstance = 2 // NT-SRV-INST: RFC 4120, Section 6.2

func addName(b *cryptobyte.Builder, n uint8, name []string) {
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
			addInt(b, 0, nameServiceInstance)
			b.AddASN1(contextTag(1), func(b *cryptobyte.Builder) {
				b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
					for _, s := range name {
						addText(b, s)
					}
				})
			})
		})
	})
}

// addTagged adds SEQUENCE { [0] Int32, [n] OCTET STRING }.
func addTagged(b *cryptobyte.Builder, number int32, n uint8, value []byte) {
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		addInt(b, 0, int64(number))
		b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) { b.AddASN1OctetString(value) })
	})
}

func addKey(b *cryptobyte.Builder, n uint8, k Key) {
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) { addTagged(b, int32(k.Enctype), 1, k.Value) })
}

func addEncrypted(b *cryptobyte.Builder, n uint8, e Enctype, cipher []byte) {
	b.AddASN1(contextTag(n), func(b *cryptobyte.Builder) { addTagged(b, int32(e), 2, cipher) })
}

// buildAPRep returns an AP-REP (RFC 4120, Section 5.5.2), encrypted with the ticket's
// session key.
func buildAPRep(session Key, a authenticator, subkey Key, sequence uint32) []byte {
	part := buildType(tagEncAPRepPart, func(b *cryptobyte.Builder) {
		addTime(b, 0, a.ctime)
		addInt(b, 1, int64(a.cusec))
		addKey(b, 2, subkey)
		addInt(b, 3, int64(sequence))
	})
	return buildType(messageAPRep, func(b *cryptobyte.Builder) {
		addInt(b, 0, protocolVersion)
		addInt(b, 1, messageAPRep)
		addEncrypted(b, 2, session.Enctype, session.encrypt(usageAPRep, part))
	})
}

// buildKRBError returns the server's KRB-ERROR (RFC 4120, Section 5.9.1) for the time
// now.
func buildKRBError(code errorCode, now time.Time, realm string, service []string) []byte {
	return buildType(messageError, func(b *cryptobyte.Builder) {
		addInt(b, 0, protocolVersion)
		addInt(b, 1, messageError)
		addTime(b, 4, now)
		addInt(b, 5, int64(now.Nanosecond()/1000))
		addInt(b, 6, int64(code))
		addString(b, 9, realm)
		addName(b, 10, service)
	})
}
