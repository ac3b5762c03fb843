package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
)

// completionTimeout bounds how long a completion waits for the daemon.
const completionTimeout = time.Second

// requestForCompletion requests a document from the daemon whose socket the command line names.
func requestForCompletion(cmd *cobra.Command, name string, d any) bool {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	body, err := requestDaemon(ctx, cmd.Flag("control").Value.String(), http.MethodGet, name)
	if err != nil {
		return false
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(d) == nil
}

// completeClientID completes the ID of a client, with its name as the description.
func completeClientID(cmd *cobra.Command, _ []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	var d report.ClientList
	if requestForCompletion(cmd, "clients", &d) {
		for i := range d.Clients {
			ids = append(ids, cobra.CompletionWithDesc(d.Clients[i].ID, d.Clients[i].Owner))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeExport completes the directory of an export.
func completeExport(cmd *cobra.Command, args []string, _ string) (paths []string, _ cobra.ShellCompDirective) {
	var d report.ExportList
	if len(args) == 0 && requestForCompletion(cmd, "exports", &d) {
		for i := range d.Exports {
			paths = append(paths, d.Exports[i].Path)
		}
	}
	return paths, cobra.ShellCompDirectiveNoFileComp
}
