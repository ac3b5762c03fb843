package rpctls

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// bindingLabel and bindingLen define tls-exporter (RFC 9266, Section 2).
const (
	bindingLabel = "EXPORTER-Channel-Binding"
	bindingLen   = 32
)

// securityOf describes a connection after its handshake.
func securityOf(s *tls.ConnectionState) *oncrpc.Security {
	sec := &oncrpc.Security{Suite: tls.CipherSuiteName(s.CipherSuite), Protocol: s.NegotiatedProtocol}
	if len(s.PeerCertificates) > 0 {
		sec.Issuer, sec.Serial = identityOf(s.PeerCertificates[0])
		sec.Owner = ownerOf(s.PeerCertificates[0])
	}
	sec.Binding, _ = s.ExportKeyingMaterial(bindingLabel, nil, bindingLen) // TLS 1.3 always can
	return sec
}

// identityOf returns the pair that identifies a certificate's owner (RFC 9289, Section
// 5.2.1). The owner is a host, and never a user.
func identityOf(c *x509.Certificate) (issuer, serial string) {
	return c.Issuer.String(), fmt.Sprintf("%x", c.SerialNumber)
}

// ownerOf returns a hash over the issuer and all names in a certificate. The owner's next
// certificate has the same names, perhaps in another order, but another serial number.
func ownerOf(c *x509.Certificate) (owner [sha256.Size]byte) {
	h := sha256.New()
	add := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		h.Write(b)
	}
	add(c.RawIssuer)
	add(c.RawSubject)
	for _, e := range c.Extensions {
		if !e.Id.Equal(subjectAltName) {
			continue
		}
		for _, name := range sortedNames(e.Value) {
			add(name)
		}
	}
	h.Sum(owner[:0])
	return owner
}

// sortedNames returns the names in a subjectAltName, sorted: authorities may write them
// in any order.
func sortedNames(value []byte) (names [][]byte) {
	var list []asn1.RawValue
	if _, err := asn1.Unmarshal(value, &list); err != nil {
		return [][]byte{value} // cannot happen: crypto/x509 has parsed it
	}
	for _, one := range list {
		names = append(names, one.FullBytes)
	}
	slices.SortFunc(names, bytes.Compare)
	return names
}

// subjectAltName is the extension with a certificate's further names (RFC 5280, Section
// 4.2.1.6).
var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// quoteName quotes a name from a certificate, which may be long and contain any bytes.
func quoteName(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}

func containsAny(s string, any ...string) bool {
	for _, one := range any {
		if strings.Contains(s, one) {
			return true
		}
	}
	return false
}
