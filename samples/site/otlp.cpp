// SPDX-License-Identifier: Apache-2.0
// Sends one event over OTLP, as `rocmcrash --event-to=PROGRAM` calls it: otlp TEXT NAME=VALUE...
// Where to is told by OTEL_EXPORTER_OTLP_ENDPOINT and its relatives. Exit status 0: the other side has taken it.
//   c++ -std=c++17 -o otlp otlp.cpp -lopentelemetry_exporter_otlp_http_log -lopentelemetry_logs -lopentelemetry_resources
//       -lopentelemetry_common
#include <opentelemetry/exporters/otlp/otlp_http_log_record_exporter_factory.h>
#include <opentelemetry/logs/severity.h>
#include <opentelemetry/sdk/common/global_log_handler.h>
#include <opentelemetry/sdk/instrumentationscope/instrumentation_scope.h>
#include <opentelemetry/sdk/logs/exporter.h>
#include <opentelemetry/sdk/logs/recordable.h>
#include <opentelemetry/sdk/resource/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace sdk = opentelemetry::sdk;
namespace internal_log = opentelemetry::sdk::common::internal_log;

// The library sends in another thread, and tells only its log of a failure.
struct Log : internal_log::LogHandler {
    std::atomic<bool> failed{false};
    void Handle(internal_log::LogLevel level, const char *, int, const char *what, const sdk::common::AttributeMap &) noexcept override
    {
        if (level == internal_log::LogLevel::Error) {
            failed = true;
            std::fprintf(stderr, "otlp: %s\n", what);
        }
    }
};

int main(int argc, char *argv[])
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: otlp TEXT NAME=VALUE...\n");
        return 2;
    }
    auto log = new Log; // its owner is a pointer of the library's, which outlives main()
    internal_log::GlobalLogHandler::SetLogHandler(opentelemetry::nostd::shared_ptr<internal_log::LogHandler>(log));
    auto resource = sdk::resource::Resource::Create({{"service.name", "rocmcrash"}});
    auto scope = sdk::instrumentationscope::InstrumentationScope::Create("rocmcrash");
    auto exporter = opentelemetry::exporter::otlp::OtlpHttpLogRecordExporterFactory::Create();
    auto record = exporter->MakeRecordable();
    auto now = std::chrono::system_clock::now();
    record->SetTimestamp(now);
    record->SetObservedTimestamp(now);
    record->SetSeverity(opentelemetry::logs::Severity::kError);
    record->SetBody(argv[1]);
    record->SetAttribute("event.name", "rocmcrash.failure");
    for (int i = 2; i < argc; i++)
        if (const char *equals = std::strchr(argv[i], '='))
            record->SetAttribute(std::string(argv[i], static_cast<std::size_t>(equals - argv[i])), equals + 1);
    record->SetResource(resource);
    record->SetInstrumentationScope(*scope);
    bool sent = exporter->Export({&record, 1}) == sdk::common::ExportResult::kSuccess;
    return exporter->Shutdown() && sent && !log->failed ? 0 : 1; // Shutdown() waits
}
