//go:build interop

package kerberos

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestKerberosCaches has two users make calls by the tickets that their own kinit has put
// into the default cache of the configuration, of each kind that the mount cannot find by
// itself.
func TestKerberosCaches(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test needs root: it runs programs of several users")
	}
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	require.NoError(t, os.Mkdir(h.dir+"/caches", 0o777))
	require.NoError(t, os.Chmod(h.dir+"/caches", 0o777))
	config, err := os.ReadFile(h.kdc.dir + "/krb5.conf")
	require.NoError(t, err)
	line, seen := h.serveProgram()
	names := map[int]string{41001: "alice", 41002: "bob"}
	for kind, cache := range map[string]string{
		"persistent": "KEYRING:persistent:%{uid}", "DIR": "DIR:" + h.dir + "/caches/%{uid}", "user": "KEYRING:user:nfsrdma-%{uid}",
	} {
		t.Run(kind, func(t *testing.T) {
			text := string(config) + "[libdefaults]\n\tdefault_ccache_name = " + cache + "\n"
			require.NoError(t, os.WriteFile(h.dir+"/krb5.conf", []byte(text), 0o644))
			as := func(uid int, input string, words ...string) {
				t.Helper()
				cmd := commandAs(uid, words...)
				cmd.Env, cmd.Stdin = append(os.Environ(), "KRB5_CONFIG="+h.dir+"/krb5.conf"), strings.NewReader(input)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			for uid, name := range names {
				as(uid, "secret\n", "kinit", name)
				t.Cleanup(func() { as(uid, "", "kdestroy") })
			}
			c := h.newCallers(line, testProg, 1)
			for range 2 {
				for uid, name := range names {
					x := oncrpc.Exchange{Prog: testProg, Vers: 1, Proc: 1, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5i, UID: uint32(uid), GID: 100}}
					require.NoError(t, c.Call(t.Context(), &x))
					x.Release()
					assert.Equal(t, name, <-seen)
				}
			}
		})
	}
}
