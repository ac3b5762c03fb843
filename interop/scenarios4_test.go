//go:build interop

package interop

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4/nfs4test"
)

// knfsdLease is the lease time of knfsd in the guest (guest/knfsd).
const knfsdLease = 10 * time.Second

// The bounds of nfsrdmad while clients take all that they can get.
const (
	hostileMemory = 256 << 20    // bytes
	hostileFiles  = 16384 + 1024 // descriptors: those of vfs/posix, and connections
)

// TestNFS4Scenarios runs the scenarios of clients over NFSv4 on nfsrdmad, whose memory
// and descriptors stay bounded.
func TestNFS4Scenarios(t *testing.T) {
	d := startDaemon(t, "--no-root-squash", "--delegations", "all")
	before := d.openFiles()
	s := &nfs4test.Server{
		Dial: func() (net.Conn, error) { return net.Dial("tcp", d.tcp) }, Path: []string{"x"}, Name: uniqueName(), Minor: nfs4.Minor2, Lease: time.Hour,
		DialFrom: func(host byte) (net.Conn, error) {
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
			return from.Dial("tcp", d.tcp)
		},
	}
	for _, sc := range nfs4test.All() {
		t.Run(sc.Name, func(t *testing.T) {
			if sc.Slow {
				t.Skip("the lease of a daemon is long; TestScenarios runs this with a short one")
			}
			for _, failure := range sc.Run(s) {
				t.Errorf("%s\n%s", sc.By, failure)
			}
		})
	}
	plain := &nfs4test.Server{Dial: s.Dial, Path: s.Path, Name: s.Name, Minor: nfs4.Minor0, Lease: 40 * time.Second}
	for _, sc := range nfs4test.All40() {
		t.Run("4.0/"+sc.Name, func(t *testing.T) {
			if sc.Slow {
				t.Skip("the lease of a daemon is long; TestScenarios40 runs this with a short one")
			}
			for _, failure := range sc.Run(plain) {
				t.Errorf("%s\n%s", sc.By, failure)
			}
		})
	}
	peak := d.peakMemory()
	t.Logf("nfsrdmad has used %d MiB at most", peak>>20)
	assert.Less(t, peak, int64(hostileMemory))
	after := d.openFiles()
	t.Logf("%d descriptors before, %d after", before, after)
	assert.Less(t, after, hostileFiles)
	d.stopGracefully()
}

// TestNFS4ScenariosKnfsd checks that Linux's server passes the scenarios, except
// those that note its behaviour, which it must then show. With INTEROP_SOAK the
// test also waits for the end of leases.
func TestNFS4ScenariosKnfsd(t *testing.T) {
	var g *Guest
	var servers [3]*nfs4test.Server // by minor version
	name := uniqueName()
	start := func(t *testing.T) {
		g = sharedGuest(t)
		mustInGuest(t, "mkdir -p /export/nfs4test-far/away; mount --bind /export/nfs4test-far/away /export/nfs4test-far/away; exportfs -o fsid=9,insecure,"+nfs4test.Places+" '*:/export/nfs4test-far/away'")
		for minor := range servers {
			servers[minor] = &nfs4test.Server{
				Dial: func() (net.Conn, error) { return net.Dial("tcp", g.Addr(knfsdSite().tcp)) }, Name: name, Minor: uint32(minor), Lease: knfsdLease,
			}
		}
		servers[0].CallbackHost = "10.0.2.2"
		servers[1].Referral = []string{"nfs4test-far", "away"}
		servers[2].Referral = servers[1].Referral
	}
	t.Cleanup(func() { mustInGuest(t, "rm -rf /export/nfs4test-*") })
	start(t)
	t.Cleanup(func() {
		mustInGuest(t, "exportfs -u '*:/export/nfs4test-far/away'; exportfs -f; umount -l /export/nfs4test-far/away")
	})
	const alive = "rpcinfo -T tcp 127.0.0.1 nfs 4 && exportfs -f"
	run := func(minor uint32, name string, sc *nfs4test.Scenario) {
		t.Run(name, func(t *testing.T) {
			switch {
			case (sc.Slow || sc.Heavy) && os.Getenv("INTEROP_SOAK") == "":
				t.Skip("set INTEROP_SOAK to wait for the end of leases, and for thousands of calls")
			case sc.Harms:
				t.Skip("it crashes a thread of knfsd")
			case sc.Hostile:
				t.Skip("the host's forwarded connections come from one address")
			}
			began := time.Now()
			failures := sc.Run(servers[minor])
			if (len(failures) > 0 || time.Since(began) > 20*time.Second) && endUnresponsive(t, g, alive) {
				start(t) // Linux has failed, but the scenario must not cause it again
				failures = sc.Run(servers[minor])
				require.False(t, len(failures) > 0 && endUnresponsive(t, g, alive), "Linux's server hangs after the scenario")
			}
			if sc.Linux != "" {
				assert.NotEmpty(t, failures, "Linux is said to differ: %s", sc.Linux)
				t.Logf("Linux differs: %s\n%s", sc.Linux, strings.Join(failures, "\n"))
				return
			}
			if sc.OldLinux != "" && len(failures) > 0 {
				t.Logf("this Linux is old: %s\n%s", sc.OldLinux, strings.Join(failures, "\n"))
				return
			}
			for _, failure := range failures {
				t.Errorf("%s\n%s", sc.By, failure)
			}
		})
	}
	for _, sc := range nfs4test.All() {
		run(max(nfs4.Minor1, sc.Since), sc.Name, &sc)
	}
	for _, sc := range nfs4test.All40() {
		run(nfs4.Minor0, "4.0/"+sc.Name, &sc)
	}
}

// uniqueName returns a name that no other run has.
func uniqueName() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }
