package main

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
)

func newClientsCommand() *cobra.Command {
	cmd := newShowCommand("clients", new(report.ClientList), &cobra.Command{
		Use:   "clients [ID [--after KEY]] [--json | --expire ID | --end-grace]",
		Short: "List a running daemon's clients and the files that they hold, or discard their state",
		Long: fmt.Sprintf(`List the NFSv4 clients of a running daemon, and NFSv3 clients with locks: their
names, addresses, sessions, and the number of files and locks that they hold. A
client in state courtesy has not renewed its lease in time, and keeps its state
until another client needs it. The list ends after %d clients.

With ID, which is in the first column, list the files that the client holds: its
opens with their access and deny modes, delegations and locked bytes, and who
waits for locks of these files, for how long. The list ends after %d files, and says with which
--after it continues. nfsrdmad locks lists the files of all clients.

--expire discards a client and all its state, as if its lease had expired and
others needed the state. Use it for a client that will not return and blocks
others. A live client loses its open files and locks.

After a daemon restart, clients reclaim their open files and locks. Until they
have done so, but for at most 45 s, the daemon grants no locks that they could
reclaim (grace period). --end-grace ends the grace period at once: clients that
have not returned lose what they held.

--json prints one object; /usr/share/doc/nfsrdma/operations.md describes its
fields.`, report.MaxListed, report.MaxHeld),
		Example: `  nfsrdmad clients
  nfsrdmad clients 6926b3a4f3c95d11
  nfsrdmad clients --json | jq '.clients[] | select(.state == "courtesy") | .owner'
  nfsrdmad clients --expire 6926b3a4f3c95d11`,
	})
	var id clientID
	var after string
	cmd.Flags().StringVar(&after, "after", "", "continue a client's list of files after the one with `KEY`")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			if err := id.Set(args[0]); err != nil {
				return err
			}
		case after != "":
			return errors.New("--after continues a list of files: name the client, as in nfsrdmad clients ID --after KEY")
		}
		return cobra.MaximumNArgs(1)(cmd, args)
	}
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return list(cmd, args)
		}
		return showHeld(cmd, "clients/held", url.Values{"id": {id.String()}, "after": {after}})
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeClientID(cmd, args, typed)
	}
	return addClientOrders(cmd)
}
