package rpctls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// bindingLabel and bindingLen are those of tls-exporter (RFC 9266, Section 2).
const (
	bindingLabel = "EXPORTER-Channel-Binding"
	bindingLen   = 32
)

// securityOf describes a connection after its handshake.
func securityOf(s *tls.ConnectionState) *oncrpc.Security {
	sec := &oncrpc.Security{Suite: tls.CipherSuiteName(s.CipherSuite), Protocol: s.NegotiatedProtocol}
	if len(s.PeerCertificates) > 0 {
		sec.Issuer, sec.Serial = identityOf(s.PeerCertificates[0])
	}
	sec.Binding, _ = s.ExportKeyingMaterial(bindingLabel, nil, bindingLen) // TLS 1.3 always can
	return sec
}

// identityOf returns the pair that names the owner of a certificate (RFC 9289, Section
// 5.2.1). The owner is a host, and never a user.
func identityOf(c *x509.Certificate) (issuer, serial string) {
	return c.Issuer.String(), fmt.Sprintf("%x", c.SerialNumber)
}

// quote quotes a name from a certificate, which may be long and of any bytes.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}

func contains(s string, any ...string) bool {
	for _, one := range any {
		if strings.Contains(s, one) {
			return true
		}
	}
	return false
}
