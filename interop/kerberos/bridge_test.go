//go:build interop

package kerberos

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKerberosBridge mounts nfsrdmad twice with krb5p through a bridge, over TCP: by two
// names of the server, so that Linux has a connection and contexts of alice and bob for
// each. Both users write concurrently through both mounts, and read all the data.
func TestKerberosBridge(t *testing.T) {
	m, r := newMachine(t)
	m.Must("dd if=/dev/urandom of=/tmp/data bs=%d count=%d 2>/dev/null; chmod 644 /tmp/data", payload, count)
	d := newDaemon(t, r, "krb5p")
	port := portOf(t, d.startBridge(t, "--insecure")) // the guest is behind NAT
	points := map[string]string{"server": "/mnt", "second": "/mnt2"}
	for host, point := range points {
		m.Mount(host+".test.example:/x", point, "vers=3,nolock,proto=tcp,sec=krb5p,noac,port="+port+",mountproto=tcp,mountport="+port)
		m.May("alice", "umask 022; mkdir %s/%s && umask 077 && echo of alice >%s/%s/secret", point, host, point, host)
	}
	m.Must(`for point in /mnt /mnt2; do
			for user in alice bob; do
				(su -s /bin/sh -c "umask 022; dd if=/tmp/data of=$point/$user${point#/}.data bs=%d conv=fsync" $user 2>/tmp/$user.out || cat /tmp/$user.out) &
			done
		done
		wait`, payload)
	data, err := os.ReadFile(filepath.Join(d.dir, "alicemnt.data"))
	require.NoError(t, err)
	assert.Len(t, data, count*payload)
	for _, point := range points {
		for _, user := range []string{"alice", "bob"} {
			m.May(user, "for f in %s/*.data; do cmp $f /tmp/data || exit; done", point)
		}
		m.May("alice", "cat %s/server/secret %s/second/secret", point, point)
		m.MayNot("bob", "cat %s/server/secret", point)
		m.MayNot("carol", "cat %s/alicemnt.data", point)
	}
	found, err := filepath.Glob(filepath.Join(d.dir, "*.data"))
	require.NoError(t, err)
	assert.Len(t, found, 4)
	for user, uid := range map[string]uint32{"alice": 1, "bob": 2} {
		for _, point := range points {
			assert.Equal(t, uid, ownerOf(t, filepath.Join(d.dir, user+point[1:]+".data")))
		}
	}
	m.Must("umount /mnt /mnt2")
}
