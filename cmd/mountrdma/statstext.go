package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// The number of counters in lines of /proc/self/mountstats (statvers 1.1, and RPC iostats
// version 1.1).
const (
	statsEvents = 27
	statsXprt   = 27 // RDMA transport
	statsTCP    = 13 // TCP transport
)

// formatStats formats the mount's section of /proc/self/mountstats.
func (m *mountCommand) formatStats(fs *nfsclient.FS, held *delegclient.Set, now time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	var all [nfs3.NumProc]rpcstats.CallStats
	var calls, inFlight uint64
	for proc := range all {
		all[proc] = m.counter.Stats(uint32(proc))
		calls += all[proc].Calls
		inFlight += all[proc].InFlight
	}
	read, written := all[nfs3.ProcRead].Received, all[nfs3.ProcWrite].Sent

	line("device %s mounted on %s with fstype nfs statvers=1.1", escapeOctal(m.source), escapeOctal(m.point))
	line("\topts:\t%s", m.statsOptions(fs))
	line("\tage:\t%d", int64(now.Sub(m.countingSince)/time.Second))
	line("\tcaps:\tcaps=0x0,wtmult=4096,dtsize=%d,bsize=0,namlen=255", fs.ListSize())
	line("\tsec:\tflavor=1,pseudoflavor=1")
	line("\tevents:\t%s", formatNumbers(make([]uint64, statsEvents)))
	line("\tbytes:\t%s", formatNumbers([]uint64{0, 0, 0, 0, read, written, read / mountopt.PageSize, written / mountopt.PageSize}))
	if held != nil {
		h := held.Stats()
		line("\tdelegation:\theld=%d,asked=%d,granted=%d,refused=%d,recalled=%d,served=%d,atomics=%d",
			h.Held, h.Asked, h.Granted, h.Refused, h.Recalled, h.Served, h.Atomics)
	}
	line("\tRPC iostats version: 1.1  p/v: %d/%d (nfs)", nfs3.Program, nfs3.Version)
	xprt := make([]uint64, statsXprt)
	if m.overTCP() {
		xprt = xprt[:statsTCP]
	}
	xprt[5], xprt[6] = calls+inFlight, calls // sent and received
	line("\txprt:\t%s %s", m.proto.Word, formatNumbers(xprt))
	line("\tper-op statistics")
	for proc, s := range all {
		ms := uint64(s.Duration / time.Millisecond)
		line("\t%12s: %s", nfs3.ProcName(uint32(proc)), formatNumbers([]uint64{s.Calls, s.Calls, 0, s.Sent, s.Received, 0, ms, ms, s.Failed}))
	}
	return b.String() + "\n"
}

// statsOptions returns the mount's options in the notation of nfs(5).
func (m *mountCommand) statsOptions(fs *nfsclient.FS) string {
	o := m.opts
	words := []string{map[bool]string{false: "rw", true: "ro"}[o.ReadOnly], "vers=3"}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	add("rsize=%d,wsize=%d,namlen=255", fs.ReadSize(), fs.WriteSize())
	if o.NoAC {
		add("noac")
	} else {
		add("acregmin=%d,acregmax=%d,acdirmin=%d,acdirmax=%d", o.ACRegMin, o.ACRegMax, o.ACDirMin, o.ACDirMax)
	}
	add("%s,proto=%s,nconnect=%d", map[bool]string{false: "hard", true: "soft"}[o.Soft], m.proto.Word, o.Connections)
	host, port, err := net.SplitHostPort(m.serverAddr())
	if err == nil {
		add("port=%s,timeo=%d,retrans=%d,sec=%v", port, o.Timeo, o.Retrans, exports.Flavor(fs.Client().Flavor()))
		if m.usesTLS() {
			add("xprtsec=%s", m.xprtsec.Word)
		}
		add("addr=%s", host)
	}
	return strings.Join(words, ",")
}

func formatNumbers(all []uint64) string {
	return strings.Trim(fmt.Sprint(all), "[]")
}

// escapeOctal writes bytes that would end a word as \ooo, like the kernel.
func escapeOctal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; strings.IndexByte(" \t\n\\#", c) >= 0 {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
