package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
)

func newClientsCommand() *cobra.Command {
	cmd := newShowCommand("clients", new(report.ClientList), &cobra.Command{
		Use:   "clients [--json | --expire ID | --end-grace]",
		Short: "List a running daemon's clients that hold opens or locks, or discard their state",
		Long: fmt.Sprintf(`List the NFSv4 clients of a running daemon, and NFSv3 clients with locks: their
names, addresses, sessions, and the number of files and locks that they hold. A
client in state courtesy has not renewed its lease in time, and keeps its state
until another client needs it. The list ends after %d clients.

--expire discards a client and all its state, as if its lease had expired and
others needed the state. Use it for a client that will not return and blocks
others. A live client loses its open files and locks. ID is in the first column.

After a daemon restart, clients reclaim their open files and locks. Until they
have done so, but for at most 45 s, the daemon grants no locks that they could
reclaim (grace period). --end-grace ends the grace period at once: clients that
have not returned lose what they held.

--json prints one object; /usr/share/doc/nfsrdma/operations.md describes its
fields.`, report.MaxListed),
		Example: `  nfsrdmad clients
  nfsrdmad clients --json | jq '.clients[] | select(.state == "courtesy") | .owner'
  nfsrdmad clients --expire 6926b3a4f3c95d11`,
	})
	return addClientOrders(cmd)
}
