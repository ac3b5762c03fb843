package mountopt

import (
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// Options are the options that -o sets, with the names and defaults of nfs(5).
type Options struct {
	Flags

	ReadOnly, NoSUID, NoDev, NoExec, AllowOther bool

	Soft           bool
	Timeo, Retrans int // tenths of a second; repetitions

	ReadSize, WriteSize int // bytes; 0: the server's maximum

	Connections int

	Port, MountPort int // 0: the operand's
	MountHost       string

	NoAC, Sync                             bool
	NoDeleg                                bool // use no delegations
	ACRegMin, ACRegMax, ACDirMin, ACDirMax int  // seconds
	Lookup                                 Lookup

	NoLock                 bool // take all locks on this host only
	LocalPOSIX, LocalFlock bool // take fcntl(2) and flock(2) locks on this host only

	Background bool
	retry      int // minutes; below 0: the default for Background

	Notice     bool       // receive server restart notices over RoCE
	NoticeFrom netip.Addr // this host's address; invalid: the address that routes to the server
}

// Flags are the values for command-line flags that -o also sets.
type Flags struct {
	CRC, Markers *cli.Choice
	NoExtensions *bool
	Inline       *cli.Size
	Credits      *int
	Proto        *cli.Choice // rdma or tcp
	ClearMOUNT   *bool
	Sec          *Sec
	Keytab       *string
	Xprtsec      *cli.Choice
	ALPN         *cli.Choice

	TLSCert, TLSKey, TLSCA, TLSCRL *string // paths
	TLSKernel                      *cli.Choice
}

// A Lookup selects the names that a mount caches (nfs(5), lookupcache).
type Lookup int

// Values for Lookup.
const (
	LookupAll      Lookup = iota // names, and their absence
	LookupPositive               // names that exist
	LookupNone
)

// New returns the default options. Files on another host must not make a user root
// on this host: set-user-ID programs and devices must be enabled explicitly.
func New(f Flags) *Options {
	return &Options{
		Flags: f, NoSUID: true, NoDev: true, Timeo: 600, Retrans: 2, retry: -1, Connections: 1,
		ACRegMin: 3, ACRegMax: 60, ACDirMin: 30, ACDirMax: 60,
	}
}

// Silence returns the time for which a server may be silent.
func (o *Options) Silence() time.Duration { return time.Duration(o.Timeo) * time.Second / 10 }

// GiveUp returns the time for which a call waits for a server; 0 means forever, as
// on hard mounts. On a soft mount GiveUp follows Linux for TCP and RDMA: timeo plus
// retrans times timeo, at most ten minutes.
func (o *Options) GiveUp() time.Duration {
	if !o.Soft {
		return 0
	}
	return min(time.Duration(1+o.Retrans)*o.Silence(), maxGiveUp)
}

// Patience returns the time for which to try to mount.
func (o *Options) Patience() time.Duration {
	switch {
	case o.retry >= 0:
		return time.Duration(o.retry) * time.Minute
	case o.Background:
		return backgroundRetry
	default:
		return foregroundRetry
	}
}
