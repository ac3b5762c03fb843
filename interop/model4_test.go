//go:build interop

package interop

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/model"
)

// model4Seed is any number: see TestModel.
const model4Seed = 4224

// TestModel4 lets two Linux clients over NFSv4.2, which cache files under delegations, a
// mount of mountrdma with delegation counters, and a process of the host write and read
// the same files: each open must see the bytes written last. INTEROP_SOAK is the
// duration, of which each kind of delegations has a half.
func TestModel4(t *testing.T) {
	for _, delegations := range []string{"read", "all"} {
		t.Run(delegations, func(t *testing.T) { testModel4(t, delegations) })
	}
}

func testModel4(t *testing.T, delegations string) {
	sharedGuest(t)
	seed := uint64(model4Seed)
	length := soakTime(t, 30*time.Second)
	if length > 30*time.Second {
		seed = uint64(time.Now().UnixNano())
	}
	length /= 2
	t.Logf("seed %d", seed)
	control := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--delegations", delegations, "--control", control)
	v := &mountViews{served: d.dir}
	v.fuse[0] = mountServer{addr: d.rdma, guestSite: d.guestSite()}.mountFUSE(t)
	v.addFUSE(t, 0)
	s := d.guestSite().withVersion("4.2")
	var linux []*Session
	for point, transport := range map[string]string{"/mnt": "rdma", "/mnt2": "tcp"} {
		s.mountInGuest(t, point, s.mountOptions(transport))
		p, err := sharedGuest(t).Open(t.Context(), "exec guestwork model "+point)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		v.addMount("linux by "+transport, p, p.Close)
		linux = append(linux, p)
	}
	v.mounts = append(v.mounts, model.Mount{Name: "host", Player: &retryingPlayer{Player: model.Dir(d.dir)}})
	contentsOf(t, v, seed, length, model.Many(seed), model.ManyFiles())
	for _, end := range v.ends {
		end()
	}
	for _, p := range linux {
		require.NoError(t, p.CloseWrite())
		rest, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Zero(t, p.Status(), "%s", rest)
	}
	n := statusOf(t, control).NFS4
	t.Logf("delegations: %d granted, %d recalled, %d revoked", n.Granted, n.Recalled, n.Revoked)
	require.NotZero(t, n.Recalled)
	require.Zero(t, n.Revoked)
	unmountInGuest(t, "/mnt")
	unmountInGuest(t, "/mnt2")
	v.fuse[0].unmountFUSE()
	d.stopGracefully()
}
