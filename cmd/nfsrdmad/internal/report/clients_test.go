package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
)

// TestClientsCut checks that a list says how many clients it leaves out, and
// that a daemon without version 4 says so.
func TestClientsCut(t *testing.T) {
	var text strings.Builder
	d := ClientList{Served: true, Total: 1005, Clients: make([]clientDoc, MaxListed)}
	require.NoError(t, d.PrintText(&text, time.Time{}))
	assert.True(t, strings.HasSuffix(text.String(), "\nand 5 more\n"))
	text.Reset()
	require.NoError(t, new(Source).CollectClients().PrintText(&text, time.Time{}))
	assert.Contains(t, text.String(), "--vers")
}

// TestPrincipalWords checks how the makers of clients' records are named.
func TestPrincipalWords(t *testing.T) {
	for want, p := range map[string]nfs4state.Principal{
		"uid 5": {Flavor: 1, UID: 5}, "none": {}, "kerberos, nfs/a.example@R": {Flavor: 6, Name: "nfs/a.example@R"}, "flavor 3": {Flavor: 3},
	} {
		assert.Equal(t, want, formatPrincipal(p))
	}
}
