package doctor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// checkPort checks whether the daemon listens on an address or could.
func (h *Host) checkPort(flag, addr string) Finding {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		l.Close()
		return Finding{"port", OK, addr + " is free for " + flag, ""}
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return Finding{"port", Fail, cli.ListenError(flag, addr, err, "").Error(), "see ip address"}
	}
	_, number, _ := net.SplitHostPort(addr)
	if kernelHas(h.portlist, "tcp", number) || kernelHas(h.portlist, "rdma", number) { // not the daemon, even if one is running
		return Finding{"port", Fail, "Linux's NFS server uses port " + number, "systemctl disable --now nfs-server, or another port with " + flag}
	}
	port, _ := strconv.ParseUint(number, 10, 16) // valid, because Listen accepted it
	return h.judgeHolders(flag, addr, err, portHolders(uint16(port)))
}

// judgeHolders returns the finding about an address that the processes who use.
func (h *Host) judgeHolders(flag, addr string, err error, who []holder) Finding {
	pid, running := h.Daemon()
	switch {
	case running && (pid == 0 || len(who) == 0):
		return Finding{"port", OK, "a daemon is running, and " + addr + " is in use", ""}
	case running && slices.ContainsFunc(who, func(w holder) bool { return w.pid == pid }):
		return Finding{"port", OK, fmt.Sprintf("a daemon is running (process %d), and uses %s", pid, addr), ""}
	case running:
		return Finding{"port", Fail, fmt.Sprintf("a daemon is running (process %d), but %v uses %s", pid, who[0], addr), fmt.Sprintf("stop that (systemctl status %d names its unit), or choose another port with %s", who[0].pid, flag)}
	case slices.ContainsFunc(who, func(w holder) bool { return w.pid == 1 && w.name == "systemd" }):
		return Finding{"port", Warn, "systemd listens on " + addr + " for a unit that it starts with the first connection", "systemctl list-sockets names it: unless it is nfsrdmad.socket or nfsrdmad-tcp.socket, stop it or choose another port with " + flag}
	case len(who) == 0:
		return Finding{"port", Fail, cli.ListenError(flag, addr, err, "").Error(), "find the process: ss -ltnp, as root"}
	}
	return Finding{"port", Fail, fmt.Sprintf("%v; %v uses it", cli.ListenError(flag, addr, err, ""), who[0]), fmt.Sprintf("systemctl status %d names its unit", who[0].pid)}
}

// kernelHas reports whether Linux's NFS server listens on a port of a transport.
func kernelHas(portlist, transport, number string) bool {
	text, err := os.ReadFile(portlist)
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), transport+" "+number)
}

// checkKnfsd checks which modules of Linux's own NFS over RDMA are loaded.
func (h *Host) checkKnfsd() Finding {
	loaded := func(names ...string) (list []string) {
		for _, name := range names {
			if _, err := os.Stat(h.modules + "/" + name); err == nil {
				list = append(list, name)
			}
		}
		return list
	}
	_, number, _ := net.SplitHostPort(h.Listen)
	if kernelHas(h.portlist, "rdma", number) {
		return Finding{"knfsd", Fail, "Linux's NFS server uses RDMA port " + number + ": clients with RDMA hardware reach it instead of the daemon", "systemctl disable --now nfs-server, or another port with --listen"}
	}
	text, err := os.ReadFile(h.portlist)
	switch ports := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n", ",")), " "); {
	case err == nil && ports != "":
		return Finding{"knfsd", OK, "Linux's NFS server is running, on other ports: " + strings.TrimSuffix(ports, ","), ""}
	case len(loaded("nfsd")) > 0:
		return Finding{"knfsd", OK, "Linux's NFS server is loaded, and uses no port", ""}
	}
	if list := loaded("rpcrdma", "siw", "rdma_cm"); len(list) > 0 {
		return Finding{"knfsd", OK, "Linux's NFS server is not loaded; " + strings.Join(list, ", ") + " are for this host's mounts; the daemon does not need them", ""}
	}
	return Finding{"knfsd", OK, "Linux's NFS server is not loaded; the daemon needs no module", ""}
}
