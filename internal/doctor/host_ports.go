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

// port sees whether the daemon can listen, or does.
func (h *Host) port(flag, addr string) Finding {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		l.Close()
		return Finding{"port", OK, addr + " is free for " + flag, ""}
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return Finding{"port", Fail, cli.ListenError(flag, addr, err, "").Error(), "see ip address"}
	}
	_, number, _ := net.SplitHostPort(addr)
	if kernelHas(h.portlist, "tcp", number) || kernelHas(h.portlist, "rdma", number) { // a daemon that runs has others
		return Finding{"port", Fail, "Linux's NFS server has port " + number, "systemctl disable --now nfs-server, or another port with " + flag}
	}
	port, _ := strconv.ParseUint(number, 10, 16) // Listen has taken it
	return h.taken(flag, addr, err, holders(uint16(port)))
}

// taken judges an address in use by the processes that listen there.
func (h *Host) taken(flag, addr string, err error, who []holder) Finding {
	pid, running := h.Daemon()
	switch {
	case running && (pid == 0 || len(who) == 0):
		return Finding{"port", OK, "a daemon is running, and " + addr + " is in use", ""}
	case running && slices.ContainsFunc(who, func(w holder) bool { return w.pid == pid }):
		return Finding{"port", OK, fmt.Sprintf("a daemon is running (process %d), and has %s", pid, addr), ""}
	case running:
		return Finding{"port", Fail, fmt.Sprintf("a daemon is running (process %d), but %v has %s", pid, who[0], addr), fmt.Sprintf("stop that, as systemctl status %d says, or choose another port with %s", who[0].pid, flag)}
	case slices.ContainsFunc(who, func(w holder) bool { return w.pid == 1 && w.name == "systemd" }):
		return Finding{"port", Warn, "systemd listens on " + addr + " for a unit that it starts with the first connection", "systemctl list-sockets names it: if that is nfsrdmad.socket, all is well; else stop it, or choose another port with " + flag}
	case len(who) == 0:
		return Finding{"port", Fail, cli.ListenError(flag, addr, err, "").Error(), "see who has it: ss -ltnp, as root"}
	}
	return Finding{"port", Fail, fmt.Sprintf("%v; %v has it", cli.ListenError(flag, addr, err, ""), who[0]), fmt.Sprintf("systemctl status %d names its unit", who[0].pid)}
}

// kernelHas reports whether Linux's server listens on a port of a transport.
func kernelHas(portlist, transport, number string) bool {
	text, err := os.ReadFile(portlist)
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), transport+" "+number)
}

// knfsd says what of Linux's own NFS over RDMA is loaded, and what it is for.
func (h *Host) knfsd() Finding {
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
		return Finding{"knfsd", Fail, "Linux's NFS server has port " + number + " of RDMA: clients with cards reach that, and not the daemon", "systemctl disable --now nfs-server, or another port with --listen"}
	}
	text, err := os.ReadFile(h.portlist)
	switch ports := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n", ",")), " "); {
	case err == nil && ports != "":
		return Finding{"knfsd", OK, "Linux's NFS server runs beside, with other ports: " + strings.TrimSuffix(ports, ","), ""}
	case len(loaded("nfsd")) > 0:
		return Finding{"knfsd", OK, "Linux's NFS server is loaded, and has no port", ""}
	}
	if list := loaded("rpcrdma", "siw", "rdma_cm"); len(list) > 0 {
		return Finding{"knfsd", OK, "Linux's NFS server is not loaded; " + strings.Join(list, ", ") + " are for mounts on this host, and the daemon needs none", ""}
	}
	return Finding{"knfsd", OK, "Linux's NFS server is not loaded, and the daemon needs no module", ""}
}
