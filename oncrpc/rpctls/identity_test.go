package rpctls

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
)

// TestOwner checks that a host is known again by a new certificate, and that no other
// host is taken for it.
func TestOwner(t *testing.T) {
	root, another := newAuthority(t, "root"), newAuthority(t, "another")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil), root, another)})
	owner := func(a *authority, subject string, names ...string) [32]byte {
		h := a.Issue(func(c *x509.Certificate) { c.Subject, c.DNSNames = pkix.Name{CommonName: subject}, names })
		f := filesOf(h)
		f.CA = certtest.Bundle(root)
		_, server := r.handshakeOK(newTestClient(t, ClientConfig{Files: f, Mutual: true}))
		return server.Security().Owner
	}
	first := owner(root, "a", "a.example")
	assert.Equal(t, first, owner(root, "a", "a.example"), "a new certificate")
	for _, other := range [][32]byte{{}, owner(another, "a", "a.example"), owner(root, "b", "a.example"), owner(root, "a", "b.example"), owner(root, "", "a.example")} {
		assert.NotEqual(t, first, other)
	}
	two := owner(root, "a", "a.example", "b.example")
	assert.Equal(t, two, owner(root, "a", "b.example", "a.example"), "the names have no order (RFC 5280, Section 4.2.1.6)")
	assert.NotEqual(t, two, owner(root, "a", "a.example", "a.example"))
	assert.NotEqual(t, two, first)
	_, anonymous := r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}))
	assert.Zero(t, anonymous.Security().Owner)
}
