package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Unchanged sets the ETag of an answer to a GET, which same names: two answers with the same bytes there are the same to the
// client. If the client has that answer already (If-None-Match), it answers 304 and reports true.
func Unchanged(w http.ResponseWriter, r *http.Request, same []byte) bool {
	sum := sha256.Sum256(same)
	tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	for had := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if strings.TrimSpace(had) == tag {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}
