//go:build interop

package kerberos

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// TestKerberosTransports makes a context over TCP and uses it over RDMA, as Linux does,
// and the other way round (R2203-RDMA-6).
func TestKerberosTransports(t *testing.T) {
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	d := newDaemon(t, r, "krb5p:krb5i:krb5")
	tcp, err := oncrpc.DialTCP(t.Context(), d.TCP, oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer tcp.Close()
	rdma, err := rpcrdma.Dial(t.Context(), iwarp.Open(iwarp.Config{}), d.RDMA, rpcrdma.ClientConfig{})
	require.NoError(t, err)
	defer rdma.Close()
	root := rootOf(t, tcp)
	for i, way := range [][2]oncrpc.Caller{{tcp, rdma}, {rdma, tcp}} {
		x := &switchableCaller{Caller: way[0]}
		c, s := r.newSecureClient(x, rpcmsg.AuthKrb5p)
		require.NoError(t, c.Null(t.Context()))
		for _, x.Caller = range []oncrpc.Caller{way[1], way[0], way[1]} {
			attr, err := c.GetAttr(t.Context(), root)
			require.NoError(t, err)
			assert.Equal(t, nfs3.TypeDir, attr.Type)
		}
		s.Close(t.Context())
		status := d.contextStatus(t)
		assert.Equal(t, []int{i + 1, 0}, []int{status.Made, status.Contexts})
	}
}
