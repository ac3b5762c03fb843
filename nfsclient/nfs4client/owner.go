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

// machineIDFile identifies the host, and must not be sent unhashed:
// machine-id(5).
const machineIDFile = "/etc/machine-id"

// newOwner returns a co_ownerid (RFC 8881, Section 2.4): the host, the kind of
// transport, and random bytes. The host name is not sufficient, because cloned
// virtual machines share it. A server that is reached over both kinds of
// transport keeps separate state for each, so the owners must differ too.
func newOwner(network string) []byte {
	id, _ := os.ReadFile(machineIDFile) // if the file is missing, the random bytes suffice
	m := hmac.New(sha256.New, []byte(strings.TrimSpace(string(id))))
	m.Write([]byte("nfsrdma nfs4client"))
	var instance [8]byte
	_, _ = rand.Read(instance[:])
	return fmt.Appendf(nil, "nfsrdma %s %x %x", network, m.Sum(nil)[:16], instance)
}

// newVerifier returns a unique verifier for this instance.
func newVerifier() (v nfs4.Verifier) {
	_, _ = rand.Read(v[:])
	return v
}
