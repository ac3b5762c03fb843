//go:build interop

package interop

import (
	"testing"
)

// knfsd is the kernel's own server in the guest.
func knfsd() site {
	return site{
		host: "10.0.2.15", export: "/export", rdma: 20049, tcp: 2049, mountd: 20048,
		backing: guestDir("/export"),
	}
}

// TestKnfsd holds the workload itself against the kernel's server: what fails
// there is no fault of ours.
func TestKnfsd(t *testing.T) {
	guest(t)
	for _, transport := range []string{"rdma", "tcp"} {
		t.Run(transport, func(t *testing.T) { session(t, knfsd(), transport) })
	}
}
