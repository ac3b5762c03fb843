//go:build interop

package kerberos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

const otherRealm = "OTHER.EXAMPLE"

// TestKerberosSecondRealm has users of two realms, whose KDCs trust one another, make
// files. A principal of the other realm is never the user of the same name: only [Static]
// makes it one.
func TestKerberosSecondRealm(t *testing.T) {
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	other, err := startRealm(t.TempDir(), otherRealm, enctypes[krb5.AES256SHA1])
	require.NoError(t, err)
	t.Cleanup(other.Kill)
	for _, kdc := range []*KDC{h.kdc, other} {
		require.NoError(t, kdc.runAdmin("addprinc -pw between krbtgt/%s@%s", Realm, otherRealm))
		for _, name := range []string{"daemon", "bin"} {
			require.NoError(t, kdc.runAdmin("addprinc -pw secret %s", name))
		}
	}
	config, err := os.ReadFile(h.dir + "/krb5.conf")
	require.NoError(t, err)
	config = fmt.Appendf(config, "[realms]\n\t%s = {\n\t\tkdc = %s\n\t}\n", otherRealm, other.Addr)
	require.NoError(t, os.WriteFile(h.dir+"/krb5.conf", config, 0o644))
	require.NoError(t, os.WriteFile(h.kdc.dir+"/krb5.conf", config, 0o600))

	rules := filepath.Join(t.TempDir(), "idmapd.conf")
	text := "[General]\nLocal-Realms = " + Realm + "\n[Translation]\nGSS-Methods = nsswitch, static\n[Static]\nbin@" + otherRealm + " = games\n"
	require.NoError(t, os.WriteFile(rules, []byte(text), 0o600))
	d := newDaemon(t, h.testRealm, "krb5i", "--idmap", rules)
	u := h.newUsers(d.RDMA)
	for i, tt := range []struct {
		principal string
		uid       uint32
	}{
		{"daemon@" + Realm, 1},
		{"daemon@" + otherRealm, 65534},
		{"bin@" + Realm, 2},
		{"bin@" + otherRealm, 5}, // games
	} {
		h.getTicket(tt.principal, 41001+i)
		_, err := u.clientFor(rpcmsg.AuthKrb5i, uint32(41001+i)).CreateNew(t.Context(), nfs3.DirOpArgs{Dir: u.root, Name: []byte(tt.principal)}, nfs3.SetAttr{})
		require.NoError(t, err)
		assert.Equal(t, tt.uid, ownerOf(t, filepath.Join(d.dir, tt.principal)), tt.principal)
	}
	assert.Contains(t, d.runCommand(t, "status"), "daemon@"+otherRealm+"  nobody")
}

// TestKerberosClocks has the server's clock differ from a user's: by four minutes calls
// work, by more than five the error says so, and calls go on once the clock is set.
func TestKerberosClocks(t *testing.T) {
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	line, _ := h.serveProgram()
	call := func(uid int) error {
		h.getTicket("alice", uid)
		c := h.newCallers(line, testProg, 1)
		x := oncrpc.Exchange{Prog: testProg, Vers: 1, Proc: 1, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, UID: uint32(uid), GID: 100}}
		err := c.Call(context.Background(), &x)
		x.Release()
		return err
	}
	for i, ahead := range []time.Duration{4 * time.Minute, -4 * time.Minute, 6 * time.Minute, -6 * time.Minute, 0} {
		h.ahead = ahead
		err := call(41001 + i)
		if ahead.Abs() < 5*time.Minute {
			assert.NoError(t, err, ahead)
			continue
		}
		assert.ErrorIs(t, err, syscall.EACCES)
		words := "the clocks of client and server differ by more than 5 minutes: set them"
		if ahead < 0 { // by the server's clock, the ticket begins later
			words = "the server says that your ticket is not valid yet: set the clocks of server and KDC"
		}
		assert.EqualError(t, err, fmt.Sprintf("user %d: %s", 41001+i, words))
	}
}
