package nfs4client

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// machineFile names the host, and must not be sent as it is: machine-id(5).
const machineFile = "/etc/machine-id"

// newOwner returns a co_ownerid (RFC 8881, Section 2.4): the host, the kind of
// transport, and random bytes. The host's name would not do, because clones of
// a virtual machine share the name. A server that is reached over both kinds of
// transport keeps their state apart, so the owners differ too.
func newOwner(network string) []byte {
	id, _ := os.ReadFile(machineFile) // without the file, the random bytes remain
	m := hmac.New(sha256.New, []byte(strings.TrimSpace(string(id))))
	m.Write([]byte("nfsrdma nfs4client"))
	var instance [8]byte
	_, _ = rand.Read(instance[:])
	return fmt.Appendf(nil, "nfsrdma %s %x %x", network, m.Sum(nil)[:16], instance)
}

// newVerifier returns a verifier that no other instance has.
func newVerifier() (v nfs4.Verifier) {
	_, _ = rand.Read(v[:])
	return v
}
