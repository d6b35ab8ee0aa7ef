# A static binary on nothing but certificates; time zones are in it.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
ARG COMMIT=unknown
RUN CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -X main.release=${VERSION} -X main.commit=${COMMIT}" -o /llmgw ./cmd/llmgw

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /llmgw /llmgw
USER 65532:65532
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/llmgw", "healthcheck"]
ENTRYPOINT ["/llmgw"]
CMD ["serve", "--config", "/etc/llmgw/llmgw.yaml"]
