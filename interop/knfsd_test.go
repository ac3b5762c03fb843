//go:build interop

package interop

import "testing"

// knfsdSite is the kernel's own server in the guest.
func knfsdSite() guestSite {
	return guestSite{
		host: "10.0.2.15", export: "/export", rdma: 20049, tcp: 2049, mountd: 20048,
		servedDir: guestDir("/export"),
	}
}

// knfsdSite4 is the same over NFSv4.2, for which the directory is the root (fsid=0).
func knfsdSite4() guestSite {
	s := knfsdSite().withVersion("4.2")
	s.export = "/"
	return s
}

// TestKnfsd runs the workload itself on the kernel's server: a failure here is
// not a fault of ours. Some steps are omitted: "tree", "large" and "offsets" take
// long when client and server are both emulated, and "listing" exceeds the guest's
// tmpfs, whose directory offsets move when entries are removed (until Linux 6.6).
func TestKnfsd(t *testing.T) {
	sharedGuest(t)
	runSession(t, knfsdSite(), "rdma", "sizes", "parallel", "truncate", "sparse", "rename", "links",
		"attributes", "access", "names", "special", "errors")
}
